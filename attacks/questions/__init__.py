"""Questions about pages: the subject of the membership and the memorization attacks."""
