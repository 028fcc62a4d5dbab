"""A LayoutLM's gradient inverted in closed form: every token in its place, every box, and the page's pixels."""
