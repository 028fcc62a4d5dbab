import numpy as np

from pfl_audit.importing.ocr_child import word_boxes

LINE = np.array([[0, 0], [100, 0], [100, 10], [0, 10]])


def box(left: float, right: float) -> list[list[float]]:
    return [[left, 1], [right, 1], [right, 9], [left, 9]]


def test_parts_make_up_words() -> None:
    parts = [("W", box(0, 10)), ("SIL", box(12, 40)), ("9", box(90, 99))]
    assert np.array(word_boxes("WSIL 9", LINE, parts)).tolist() == [[0, 1, 40, 9], [90, 1, 99, 9]]


def test_words_share_a_line_by_their_letters_where_the_parts_are_others() -> None:
    found = word_boxes("abcd efgh i", LINE, [("abc", box(0, 10))])
    assert np.allclose(found, [[0, 0, 400 / 11, 10], [500 / 11, 0, 900 / 11, 10], [1000 / 11, 0, 100, 10]])
