"""A number that a paper prints, as a configuration file gives it and results.json holds it."""

from __future__ import annotations

from pydantic import Field

from pfl_audit.core.fields import Finite, Name, Part, Slice


class PublishedNumber(Part):
    """A number of a paper's table, and the number of ours that it belongs to."""

    paper: Name = Field(description="Short title of the paper")
    table: Name = Field(description="Table of the paper, such as `Table 4`")
    row: Name = Field(description="Row of the table, and column where it has several")
    check: Name = Field(description="Id of the check that has our number")
    metric: Name = Field(description="Name of our number")
    slice: Slice = Field(default_factory=dict, description="Slice of our number; a part of it where one number fits")
    value: Finite = Field(description="As the paper prints it: 56.13 for a share of 56.13 %")
    spread: Finite | None = Field(default=None, description="What the paper prints after ±")
