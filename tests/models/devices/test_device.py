import pytest
import torch

from pfl_audit.errors import UsageError
from pfl_audit.models.device import arithmetic_of, computing, usable_device
from tests.fake_gpu import FakeGpu, is_on_gpu


def test_auto_is_the_first_that_works() -> None:
    with FakeGpu():
        assert usable_device("auto") == "cuda"
    if not (torch.cuda.is_available() or torch.backends.mps.is_available()):
        assert usable_device("auto") == "cpu"


@pytest.mark.skipif(torch.version.cuda is not None, reason="torch is built with CUDA")
def test_what_is_lacking_is_one_line_with_what_helps() -> None:
    with pytest.raises(UsageError) as caught:
        usable_device("cuda")
    assert str(caught.value) == (
        "torch cannot use the device 'cuda' here: this torch is built without CUDA. Install torch with CUDA, or use "
        "--device auto."
    )


@pytest.mark.skipif(torch.backends.mps.is_available(), reason="this is a Mac")
def test_apple_silicon_is_lacking() -> None:
    with pytest.raises(UsageError, match="here: it needs macOS on Apple silicon"):
        usable_device("mps")


@pytest.mark.parametrize(("precision", "kind"), [("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_low_precision_is_that_of_matrix_products(precision, kind) -> None:
    weight, rows = torch.ones(3, 3), torch.ones(2, 3)
    with computing("cpu", precision):
        assert torch.nn.functional.linear(rows, weight).dtype == kind
    with computing("cpu", "fp32"):
        assert torch.nn.functional.linear(rows, weight).dtype == torch.float32


def test_arithmetic_tells_answers_apart_but_for_the_number_of_a_device() -> None:
    assert arithmetic_of("cpu", "fp32") == ()
    assert arithmetic_of("cuda:1", "fp32") == arithmetic_of("cuda", "fp32") == ("cuda", "fp32")
    assert arithmetic_of("cpu", "bf16") == ("cpu", "bf16")


def test_the_double_refuses_what_a_gpu_refuses() -> None:
    with FakeGpu(memory=1 << 10) as gpu:
        there, here = torch.ones(4, device="cuda"), torch.arange(4)
        assert there.device.type == there.sum().device.type == "cuda"
        assert here.device.type == there.cpu().device.type == there.to("cpu").device.type == "cpu"
        assert is_on_gpu(there[here] + 1.0 + torch.tensor(2.0))
        with pytest.raises(RuntimeError, match="same device"):
            there + here
        with pytest.raises(TypeError, match="numpy"):
            there.numpy()
        module = torch.nn.Linear(4, 4).to("cuda")
        assert is_on_gpu(module(there))
        with pytest.raises(RuntimeError, match="same device"):
            module(torch.ones(4))
        with pytest.raises(torch.OutOfMemoryError):
            torch.ones(1000, device="cuda")
    assert (gpu.largest, gpu.exhausted) == (4000, 1)
