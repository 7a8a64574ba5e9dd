"""Lists of items of the elastic world, such as particles."""

from __future__ import annotations

import ctypes
from ctypes import c_size_t, c_void_p
from typing import TYPE_CHECKING, Any, Callable

from . import _library as library
from . import _numpy

if TYPE_CHECKING:
    import numpy

    from .elastic import World

#: Returns the owners of items among so many ranks: an array of ranks.
Owners = Callable[["numpy.ndarray[Any, Any]", int], Any]


class Items:
    """A list of items of the world, made by :meth:`World.add_items`.

    It stays valid over resizes; what :attr:`local` returns does not.
    """

    def __init__(self, world: "World", name: str, dtype: Any) -> None:
        _numpy.require()
        import numpy

        self._world = world
        self._name = library.encoded(name)
        self.name = name
        self.dtype: "numpy.dtype[Any]" = numpy.dtype(dtype)

    @classmethod
    def added(cls, world: "World", name: str, dtype: Any, owners: Owners) -> "Items":
        """Adds the list to the world: see :meth:`World.add_items`."""
        _numpy.require()
        import numpy

        items = cls(world, name, dtype)
        if items.dtype.hasobject:
            raise TypeError(f"add_items: `{name}`: items of {items.dtype} have references to objects")

        def give(_data: Any, address: int, count: int, ranks: int, places: int) -> int:
            # An exception cannot pass through the library: it becomes the cause of its error.
            try:
                local = _numpy.view(address, count, items.dtype)
                local.flags.writeable = False
                found = numpy.asarray(owners(local, ranks))
                if found.shape != (count,):
                    raise ValueError(f"{count} items have owners of the shape {found.shape}")
                if count and found.dtype.kind not in "iu":
                    raise TypeError(f"owners are of {found.dtype}: ranks are integers")
                # A rank that an int cannot hold becomes one that does not exist.
                limits = numpy.iinfo(numpy.intc)
                _numpy.view(places, count, numpy.intc)[:] = numpy.clip(
                    found, limits.min, limits.max
                )
            except BaseException as failure:  # noqa: BLE001
                world._failure = failure
                return 1
            return 0

        call = library.ItemOwners(give)
        library.call(
            "QUO_world_items_add_with_owners",
            world._handle,
            items._name,
            items.dtype.itemsize,
            call,
            None,
        )
        # Kept for as long as the library may call it.
        world._owners[name] = call
        return items

    @property
    def local(self) -> "numpy.ndarray[Any, Any]":
        """The items of this rank, without a copy. Local.

        To be requested again after each migration, commit and change of their number: earlier items
        are memory that the library has given back, and must not be touched.
        """
        address, count = c_void_p(), c_size_t()
        library.call("QUO_world_items", self._world._handle, self._name, address, count)
        return _numpy.view(address.value, count.value, self.dtype)

    def resize(self, count: int) -> None:
        """Sets the number of items of this rank: the first ones stay, new ones are zero. Local."""
        if count < 0:
            raise ValueError(f"resize: `{self.name}`: {count} items")
        library.call("QUO_world_items_resize", self._world._handle, self._name, count)

    def migrate(self) -> None:
        """Moves each item to its owner. Collective over the world.

        Afterwards the items of a rank are sorted by the rank that they come from. An exception of the
        function for owners is :class:`InvalidArgumentError` on all ranks, on its own with the
        exception as cause; no item has moved then.
        """
        self._world._move("QUO_world_migrate", self._name)

    def remove(self) -> None:
        """Forgets the list. Local; made alike by all, outside of resizes."""
        library.call("QUO_world_array_remove", self._world._handle, self._name)
        self._world._owners.pop(self.name, None)
