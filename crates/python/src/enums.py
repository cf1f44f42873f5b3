"""Enumerations, which Python code has to see as subclasses of enum.Enum."""

import enum


class _Named(enum.Enum):
    """Values that are shown by their names."""

    def __repr__(self):
        return str(self)


class DeviceType(_Named):
    """A kind of device."""

    cpu = 0
    gpu = 1

    def __eq__(self, other):
        return self is getattr(other, "type", other)

    __hash__ = enum.Enum.__hash__


class DtypeCategory(_Named):
    """A kind of element types, for :func:`issubdtype`."""

    complexfloating = 0
    floating = 1
    inexact = 2
    signedinteger = 3
    unsignedinteger = 4
    integer = 5
    number = 6
    generic = 7


for _class in (DeviceType, DtypeCategory):
    _class.__module__ = "mlx.core"
    _class.__qualname__ = _class.__name__
