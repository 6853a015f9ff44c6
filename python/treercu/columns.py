"""A table as a mapping from column name to numpy array."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    import xarray as xr

__all__ = ["Columns"]


def _need(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError as err:
        raise ImportError(
            f"{module} is not installed; it comes with: pip install 'treercu[{extra}]'", name=module
        ) from err


def trace_frame(columns: Mapping[str, Any]) -> pd.DataFrame:
    """The DataFrame of a trace; names that repeat are categories."""
    pandas = _need("pandas", "study")
    data = {
        name: pandas.Categorical(values) if name in ("comm", "event") else values
        for name, values in columns.items()
    }
    frame: pd.DataFrame = pandas.DataFrame(data)
    return frame


class Columns(Mapping[str, "npt.NDArray[Any]"]):
    """Read-only columns of equal length, one row per item.

    `codes` says which integer columns hold codes, and the name that each code stands for;
    `to_pandas` and `to_arrow` turn those into categories.
    """

    __slots__ = ("_columns", "codes", "index")

    def __init__(
        self,
        columns: Mapping[str, npt.NDArray[Any]],
        index: str,
        codes: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self._columns = dict(columns)
        self.index = index
        self.codes: dict[str, tuple[str, ...]] = dict(codes or {})
        for array in self._columns.values():
            array.setflags(write=False)

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        try:
            return self._columns[name]
        except KeyError:
            raise KeyError(f"no column {name!r}; there are {', '.join(self._columns)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        """Number of columns; `rows` is the number of rows."""
        return len(self._columns)

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    @property
    def rows(self) -> int:
        """Number of rows."""
        return next((len(array) for array in self._columns.values()), 0)

    def labels(self, name: str) -> npt.NDArray[np.str_]:
        """A column of codes as the names they stand for."""
        if name not in self.codes:
            known = ", ".join(self.codes) or "none here"
            raise KeyError(f"column {name!r} has no codes; those that have: {known}")
        labels: npt.NDArray[np.str_] = np.asarray(self.codes[name], dtype=np.str_)[self[name]]
        return labels

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Columns):
            return NotImplemented
        return (
            self.index == other.index
            and self.codes == other.codes
            and list(self) == list(other)
            and all(np.array_equal(self[name], other[name]) for name in self)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Columns: {self.rows} rows of {', '.join(self._columns)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Columns, (self._columns, self.index, self.codes))

    def to_pandas(self) -> pd.DataFrame:
        """A pandas DataFrame (a copy)."""
        pandas = _need("pandas", "study")
        data = {
            name: pandas.Categorical.from_codes(array, categories=list(self.codes[name]))
            if name in self.codes
            else array
            for name, array in self._columns.items()
        }
        frame: pd.DataFrame = pandas.DataFrame(data, copy=True)
        frame.index.name = self.index
        return frame

    def to_xarray(self) -> xr.Dataset:
        """An xarray Dataset along the dimension `index`; units and codes are attributes."""
        xarray = _need("xarray", "study")
        variables = {}
        for name, array in self._columns.items():
            attrs: dict[str, Any] = {"units": "ns"} if name.endswith("_ns") else {}
            if name in self.codes:
                attrs["flag_values"] = list(range(len(self.codes[name])))
                attrs["flag_meanings"] = " ".join(self.codes[name])
            variables[name] = (self.index, array, attrs)
        dataset: xr.Dataset = xarray.Dataset(variables)
        return dataset

    def to_arrow(self) -> pa.Table:
        """A pyarrow Table."""
        pyarrow = _need("pyarrow", "arrow")
        columns = {}
        for name, array in self._columns.items():
            values = pyarrow.array(array)
            if name in self.codes:
                values = pyarrow.DictionaryArray.from_arrays(values, list(self.codes[name]))
            columns[name] = values
        return pyarrow.table(columns)
