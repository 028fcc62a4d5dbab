import json
from pathlib import Path

import pytest

from pfl_audit.documents.readers.provider_maps import ProviderMaps
from pfl_audit.errors import AuditError


def test_what_the_maps_say(tmp_path: Path) -> None:
    maps = {
        "doc2provider.json": {"a": "Acme", "b": {"provider": "Bolt"}, "c": None},
        "provider2docs.json": {"Core": ["d", 5]},
        "data_points.json": {"client_0": {"Acme": [1, "2"]}},
        "centralized_data_points.json": {"Bolt": [3]},
    }
    for name, content in maps.items():
        (tmp_path / name).write_text(json.dumps(content))
    read = ProviderMaps.read(sorted(tmp_path.iterdir()))
    assert read.by_document == {"a": "Acme", "b": "Bolt", "d": "Core", "5": "Core"}
    assert read.by_row == {("client_0", 1): "Acme", ("client_0", 2): "Acme", ("train", 3): "Bolt"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("data_points.json", ["a"]),
        ("data_points.json", {"client_0": ["a"]}),
        ("data_points.json", {"client_0": {"Acme": 3}}),
        ("data_points.json", {"client_0": {"Acme": ["x"]}}),
        ("data_points.json", {"client_0": {"Acme": [[1]]}}),
        ("data_points.json", {"client_0": {"Acme": [None]}}),
        ("data_points.json", {"client_0": {"Acme": ["9" * 5000]}}),
        ("centralized_data_points.json", {"Acme": {"a": 1}}),
        ("provider2docs.json", {"Acme": 3}),
        ("provider2docs.json", {"Acme": "doc"}),
        ("provider2docs.json", {"Acme": [[]]}),
        ("doc2provider.json", 3),
        ("doc2provider.json", {"a": 3}),
        ("doc2provider.json", {"a": {"provider": ["x"]}}),
        ("red_doc2provider.json", {"a": "\ud800"}),
    ],
)
def test_a_malformed_map_is_named(tmp_path: Path, name: str, content: object) -> None:
    (tmp_path / name).write_text(json.dumps(content))
    with pytest.raises(AuditError, match=rf"/{name} is not a provider map: .*Get it from the data set again"):
        ProviderMaps.read(sorted(tmp_path.iterdir()))
