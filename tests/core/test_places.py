from pathlib import Path

import pytest

from pfl_audit.core.places import Places, short, short_command


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "alice"
    folder = home / "work"
    folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("data/red", "data/red"),
        ("{here}/data/red", "data/red"),
        ("/srv/acme gmbh/red", "red"),
        ("../other/red", "red"),
        ("~/red", "red"),
        ("~", "~"),
        ("~nobody-of-this-name/x/red", "red"),
        ("org/model", "org/model"),
        ("/", "/"),
    ],
)
def test_paths_by_their_last_part_or_from_here(here: Path, path: str, shown: str) -> None:
    assert short(path.format(here=here)) == shown


def test_a_command_without_paths_and_texts(here: Path) -> None:
    typed = f"pfl-audit invert --model /srv/acme/ckpt --out={here}/run --question 'Whose?' --answer=Acme --noise 0.1"
    private = {"--question", "--answer"}
    shown = "pfl-audit invert --model ckpt --out=run --question ... --answer=... --noise 0.1"
    assert short_command(typed, private) == shown
    typed = "pfl-audit audit --set gradients.question=Whose? --set='gradients.answer=Acme GmbH' --set inversion.noise=1"
    shown = "pfl-audit audit --set gradients.question=... --set=gradients.answer=... --set inversion.noise=1"
    assert short_command(typed, private) == shown
    assert short_command("pfl-audit 'open") == "not shown: it cannot be taken apart"


def test_texts_lose_their_paths_and_nothing_else(here: Path) -> None:
    places = Places([{"red": "/srv/acme gmbh/red"}, Path("/srv/acme gmbh"), here / "run"])
    said = {
        "a": [f"/srv/acme gmbh/red holds 8/255 and/or nothing, see {here}/run/private", 3, None],
        "b": "cannot read '/home/alice/x.json': https://example.org/a/b stays, (~bob/c/d) and ~/e/f go",
        "c": f"{here.parent} and /tmp",
    }
    assert places.without(said) == {
        "a": ["red holds 8/255 and/or nothing, see run/private", 3, None],
        "b": "cannot read 'x.json': https://example.org/a/b stays, (d) and f go",
        "c": "~ and /tmp",
    }


def test_what_comes_with_the_package_is_known_by_its_folder(tmp_path: Path) -> None:
    from pfl_audit.core.places import is_shipped

    shipped = Path(__file__).parents[2] / "fixtures" / "vt5-finetuned"
    assert is_shipped(shipped)
    link = tmp_path / "link"
    link.symlink_to(shipped)
    assert is_shipped(link)
    assert not is_shipped(tmp_path)
    assert not is_shipped("microsoft/layoutlm")
