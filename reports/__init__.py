"""Reports: pure functions of results.json and the pictures beside it."""
