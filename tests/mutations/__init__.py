"""Rules of the product that are broken on purpose, one text each, to see which test finds them."""
