"""`export --onnx`: its files as onnx.backend.test reads them, run by ONNX Runtime and by ONNX's reference evaluator.

Each part is skipped where its package is not installed.
"""

from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install onnx")

from ortho_ref.conformance.__main__ import main  # noqa: E402
from ortho_ref.conformance.cases.case_files import find  # noqa: E402
from ortho_ref.conformance.cases.node_tests import node_test  # noqa: E402

#: What ONNX Runtime 1.32.0 does not do.
NOT_OF_RUNTIME = {
    *(f"test_layer_{cell}_batch-first" for cell in ("gru_reset_before", "gru_reset_after", "lstm")),  # layout = 1
    "test_cell_elman_tanh-small",  # its tanh of 1e-6 is 9e-8 off
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """dtype -> the folder."""
    made = {}

    def folder(dtype):
        if dtype not in made:
            made[dtype] = tmp_path_factory.mktemp(dtype) / "cases"
            assert main(["export", "--onnx", str(made[dtype]), "--dtype", dtype]) == 0
        return made[dtype]

    return folder


def loaded(folder):
    """As ONNX's own loader has them."""
    from onnx.backend.test.loader import load_model_tests

    return {test.name: test for test in load_model_tests(str(folder.parent), folder.name)}


def tensors(model_dir, kind, count):
    data = Path(model_dir) / "test_data_set_0"
    assert len(list(data.glob(f"{kind}_*.pb"))) == count
    return [onnx.numpy_helper.to_array(onnx.load_tensor(data / f"{kind}_{k}.pb")) for k in range(count)]


def failing(folder, run, fits=lambda model: True):
    """Which tests fail, by the comparison of ONNX's runner; and how many were run."""
    from onnx.backend.test.runner import Runner

    failed, count = set(), 0
    for name, test in loaded(folder).items():
        model = onnx.load(Path(test.model_dir) / "model.onnx")
        if not fits(model):
            continue
        count += 1
        inputs = tensors(test.model_dir, "input", len(model.graph.input))
        expected = tensors(test.model_dir, "output", len(model.graph.output))
        try:
            found = run(model, {value.name: a for value, a in zip(model.graph.input, inputs, strict=True)})
            Runner.assert_similar_outputs(expected, found, rtol=test.rtol, atol=test.atol)
        except Exception:
            failed.add(name)
    return failed, count


def in_runtime(model, inputs):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what is refused is no news
    own = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return own.run(None, inputs)


def in_evaluator(model, inputs):
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(model).run(None, inputs)


def of_evaluator(model):
    """The evaluator's RNN and GRU have tanh alone, and its operators leave sequence_lens aside."""
    names = {value.name for value in model.graph.input}
    relu = any(own.name == "activations" for node in model.graph.node for own in node.attribute)
    return not relu and "sequence_lens" not in names


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_models_are_valid(exported, dtype):
    """Names, types and shapes, by ONNX's checker and its shape inference."""
    for test in loaded(exported(dtype)).values():
        onnx.checker.check_model(onnx.load(Path(test.model_dir) / "model.onnx"), full_check=True)


def test_in_onnx_runtime(exported):
    """In float32, which is what it has: all but what it does not do."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install onnxruntime")
    assert failing(exported("float32"), in_runtime) == (NOT_OF_RUNTIME, 162)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_in_the_reference_evaluator(exported, dtype):
    """All that it can."""
    assert failing(exported(dtype), in_evaluator, of_evaluator) == (set(), 114)


def test_the_reference_evaluator_leaves_lengths_aside(exported):
    """So the cases show it: every one with lengths fails there."""
    failed, count = failing(exported("float64"), in_evaluator, lambda model: "sequence_lens" in model_inputs(model))
    assert len(failed) == count == 11


def model_inputs(model):
    return [value.name for value in model.graph.input]


def test_the_files_hold_the_case(exported):
    """Arrays, names and the case's own name; the tolerance is the kit's, on the smallest output's scale."""
    test = node_test(find("layer/lstm/bidirectional-lengths"), "float32")
    own = loaded(exported("float32"))[test.name]
    model = onnx.load(Path(own.model_dir) / "model.onnx")
    assert model.graph.doc_string.startswith("layer/lstm/bidirectional-lengths: ")
    assert (own.rtol, own.atol) == (0.0, test.atol)
    names = ["X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c"]
    assert list(test.inputs) == model_inputs(model) == names
    for kind, arrays in (("input", test.inputs), ("output", test.outputs)):
        for given, array in zip(tensors(own.model_dir, kind, len(arrays)), arrays.values(), strict=True):
            np.testing.assert_array_equal(given, array, strict=True)
