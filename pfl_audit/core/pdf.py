"""A report as PDF, printed by a headless browser of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from pfl_audit.errors import AuditError, UsageError
from pfl_audit.files import atomic_write
from pfl_audit.inputs import read_bytes

BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge")
_SECONDS: Final = 180
_LARGEST: Final = 256 << 20


def find_browser() -> str:
    """Path of a browser that prints.

    Raises:
        UsageError: There is none.
    """
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        problem = f"there is no browser to print the PDF ({', '.join(BROWSERS)})"
        raise UsageError(problem, "Install one, or leave out --pdf and print the report from any browser")
    return browser


def print_pdf(page: Path, pdf: Path) -> Path:
    """Print an HTML report; the browser can reach no network.

    Args:
        page: HTML file.
        pdf: File to write, atomically.

    Returns:
        ``pdf``.

    Raises:
        UsageError: There is no browser.
        AuditError: It prints nothing, or takes too long.
    """
    browser = find_browser()
    with TemporaryDirectory() as folder:
        made = Path(folder) / "report.pdf"
        command = [
            browser, "--headless", "--disable-gpu", "--no-pdf-header-footer", "--disable-extensions",
            "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder}/profile", f"--print-to-pdf={made}",
            *(["--no-sandbox"] if os.geteuid() == 0 else []), page.resolve().as_uri(),
        ]  # fmt: skip
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=_SECONDS)  # noqa: S603 - no shell
        except (OSError, subprocess.SubprocessError) as error:
            problem = f"{Path(browser).name} did not print the PDF ({type(error).__name__})"
            raise AuditError(problem, f"Print {page} from any browser") from error
        if not made.is_file():
            raise AuditError(f"{Path(browser).name} printed no PDF", f"Print {page} from any browser")
        content = read_bytes(made, limit=_LARGEST)
    with atomic_write(pdf) as file:
        file.write(content)
    return pdf
