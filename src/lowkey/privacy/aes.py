"""Gate room: random words of AES-128 in counter mode, by the processor's own instructions where it has them.

The words are those of randomgen's ``AESCounter``, to the bit and in its order; it makes the round keys, and the words too
on a processor without such instructions. Several blocks at a time take a sixth of the time that one word at a time does.
Word 2 b and word 2 b + 1 are block b, the encrypted number b: so any stretch of a stream is had without the ones before.
"""
# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false
# An intrinsic's first parameter is numba's own:
# pyright: reportCallIssue=false

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray
from randomgen import AESCounter

LANES = 16  # blocks at a time: one or two instructions start in each of the cycles that one takes to end
ROUNDS = 10


class AESStream:
    """The words of one key, in order; ``at`` is the next one."""

    def __init__(self, key: int) -> None:
        self._key, self.at = key, 0
        self._round_keys: NDArray[np.uint64] | None = None
        if has_aes_instructions():
            generator: Any = AESCounter(key=key)
            self._round_keys = np.array(generator.state["s"]["seed"], np.uint64)  # two words per round

    def words(self, n: int) -> NDArray[np.uint64]:
        """The next ``n``; ``at`` stays where it is."""
        block, skipped = divmod(self.at, 2)
        if self._round_keys is None:
            generator: Any = AESCounter(key=self._key, counter=block)
            return generator.random_raw(n + skipped)[skipped:]
        found = np.empty(-(-(n + skipped) // (2 * LANES)) * 2 * LANES, np.uint64)
        _encrypt_numbers(self._round_keys, block, found)
        return found[skipped : skipped + n]


@cache
def has_aes_instructions(name: str = "aes") -> bool:
    """Whether numba compiles for an x86 processor with AES: not where it was told to leave such instructions out."""
    from numba.core.registry import cpu_target

    target: Any = cpu_target.target_context
    triple, _, features = target.codegen().magic_tuple()
    return triple.startswith("x86_64") and f"+{name}" in features.split(",")


@intrinsic
def _encrypt_lanes(context, round_keys, first, found):
    """LANES blocks from the number ``first`` on, written to the address ``found``; two in a register where that may be."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        per, kind = (2, ".256") if has_aes_instructions("vaes") else (1, "")
        index, place = ir.IntType(64), ir.IntType(32)
        single, block = ir.VectorType(index, 2), ir.VectorType(index, 2 * per)
        one_round, last_round = (
            builder.module.declare_intrinsic(f"llvm.x86.aesni.{name}{kind}", (), ir.FunctionType(block, [block, block]))
            for name in ("aesenc", "aesenclast")
        )
        keys, out = (builder.inttoptr(arguments[i], kind.as_pointer()) for i, kind in ((0, single), (2, block)))
        key = [builder.load(builder.gep(keys, [index(r)]), align=8) for r in range(ROUNDS + 1)]
        key = [builder.shuffle_vector(k, k, ir.VectorType(place, 2 * per)([0, 1] * per)) for k in key]
        blocks = [block([0] * (2 * per))] * (LANES // per)
        for lane in range(LANES):
            number = builder.add(arguments[1], index(lane))
            blocks[lane // per] = builder.insert_element(blocks[lane // per], number, place(2 * (lane % per)))
        blocks = [builder.xor(numbers, key[0]) for numbers in blocks]
        for r in range(1, ROUNDS + 1):
            blocks = [builder.call(last_round if r == ROUNDS else one_round, [numbers, key[r]]) for numbers in blocks]
        for i, numbers in enumerate(blocks):
            builder.store(numbers, builder.gep(out, [index(i)]), align=8)
        return context.get_dummy_value()

    return types.void(types.intp, types.int64, types.intp), generate


@njit(cache=True, nogil=True)
def _encrypt_numbers(round_keys, first, found):
    for block in range(0, len(found) // 2, LANES):
        _encrypt_lanes(round_keys.ctypes.data, first + block, found.ctypes.data + 16 * block)
