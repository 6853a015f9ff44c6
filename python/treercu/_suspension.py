"""Whether a `with` statement has a `yield` or an `await` inside it, read off the code of its frame.

Python has no hook for "this frame is being suspended" that is there in every version and costs nothing.
But where a `with` statement ends is written in the code: in its exception table (3.11 and later), or in
`SETUP_WITH` (3.10).
"""

from __future__ import annotations

import contextlib
import dis
from types import CodeType, FrameType

#: `CO_GENERATOR | CO_COROUTINE | CO_ITERABLE_COROUTINE | CO_ASYNC_GENERATOR`
_SUSPENDABLE = 0x20 | 0x80 | 0x100 | 0x200
#: Every `yield`, `yield from` and `await` comes down to one of these.
_SUSPENDS = frozenset({"YIELD_VALUE", "YIELD_FROM"})
_ENTER_CONTEXT = contextlib.ExitStack.enter_context.__code__

#: By code and place; the code is kept, so that its id is not given to another.
_known: dict[tuple[int, int], tuple[CodeType, str | None]] = {}


def crossed(frame: FrameType) -> str | None:
    """Why the section that `frame` is entering must not be, or `None` where nothing speaks against it."""
    if frame.f_code is _ENTER_CONTEXT:
        caller = frame.f_back
        if caller is None or not caller.f_code.co_flags & _SUSPENDABLE:
            return None
        return f"entered by an exit stack in {_name(caller.f_code)}, which can be suspended inside"
    code, at = frame.f_code, frame.f_lasti
    known = _known.get((id(code), at))
    if known is None:
        if len(_known) >= 1024:
            _known.clear()
        known = _known[id(code), at] = (code, _look(code, at))
    return known[1]


def _name(code: CodeType) -> str:
    return getattr(code, "co_qualname", code.co_name)


def _look(code: CodeType, at: int) -> str | None:
    instructions = list(dis.get_instructions(code))
    body = _body(code, instructions, at)
    if body is None:
        return f"entered in {_name(code)}, which can be suspended, by something else than a with statement"
    for instruction in instructions:
        if instruction.opname in _SUSPENDS and instruction.offset in body:
            return f"the with block in {_name(code)} has a yield or an await inside"
    return None


def _body(code: CodeType, instructions: list[dis.Instruction], at: int) -> set[int] | range | None:
    """Offsets inside the `with` statement that is entered at `at`; `None` where it is none."""
    place = {instruction.offset: number for number, instruction in enumerate(instructions)}
    if at not in place:
        return None
    number = place[at]
    entering = instructions[number]
    if entering.opname == "SETUP_WITH":
        return range(at, entering.argval)
    if not _enters_with(instructions, number):
        return None
    handlers = _handlers(code.co_exceptiontable)  # type: ignore[attr-defined,unused-ignore]
    after = instructions[number + 1].offset
    handler = _handler_at(handlers, after)
    # The handler of a with statement begins so, and no other does.
    names = [i.opname for i in instructions[place[handler] :][:2]] if handler in place else []
    if handler is None or names != ["PUSH_EXC_INFO", "WITH_EXCEPT_START"]:
        return None
    return {i.offset for i in instructions if _is_inside(handlers, i.offset, handler)}


def _enters_with(instructions: list[dis.Instruction], number: int) -> bool:
    name = instructions[number].opname
    if name == "BEFORE_WITH":  # 3.11 to 3.13
        return True
    before = [instruction.opname for instruction in instructions[max(0, number - 4) : number]]
    return name == "CALL" and before.count("LOAD_SPECIAL") == 2  # 3.14


def _handlers(table: bytes) -> list[tuple[int, int, int]]:
    """Begin, end and handler of each protected range, in offsets of bytes.

    The format is described in CPython's `InternalDocs/exception_handling.md`: four numbers an entry, in
    units of two bytes, big-endian with six bits a byte; bit 6 says that more follow.
    """
    numbers = []
    value, begun = 0, False
    for byte in table:
        value = (value << 6 if begun else 0) | (byte & 0x3F)
        begun = bool(byte & 0x40)
        if not begun:
            numbers.append(value)
    return [
        (2 * start, 2 * (start + length), 2 * target)
        for start, length, target in zip(numbers[0::4], numbers[1::4], numbers[2::4], strict=True)
    ]


def _handler_at(handlers: list[tuple[int, int, int]], offset: int) -> int | None:
    return next((target for start, end, target in handlers if start <= offset < end), None)


def _is_inside(handlers: list[tuple[int, int, int]], offset: int, handler: int) -> bool:
    """An exception raised there gets to `handler`, by way of inner handlers perhaps."""
    seen = set()
    at = _handler_at(handlers, offset)
    while at is not None and at not in seen:
        if at == handler:
            return True
        seen.add(at)
        at = _handler_at(handlers, at)
    return False
