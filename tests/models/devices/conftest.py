"""Checkpoints of all families, from the fixtures of their own tests."""

from tests.models.auto.conftest import checkpoint as auto_checkpoint
from tests.models.auto.conftest import here as examined_here
from tests.models.donut.conftest import make_donut
from tests.models.donut_fields.conftest import start as donut_fields
from tests.models.layoutlm.conftest import make_qa
from tests.models.tagger.conftest import here as tagged_here
from tests.models.tagger.conftest import tagger

__all__ = ["auto_checkpoint", "donut_fields", "examined_here", "make_donut", "make_qa", "tagged_here", "tagger"]
