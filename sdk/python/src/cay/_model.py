"""What all answers of the daemon have in common."""

from __future__ import annotations

from typing import Any, Dict, List, Type, TypeVar, Union

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from cay.errors import ProviderError

__all__ = ["Model", "absent", "from_json", "from_value"]

T = TypeVar("T", bound="Model")


def absent() -> Any:
    """The value of what the daemon always says, when it is an older one that does not."""
    return None


class Model(BaseModel):
    """An answer of the daemon. What it says beyond what this version knows is kept, and what it does not say is None: neither
    a newer nor an older daemon breaks anything.

    Every value is an attribute with a name as Python has them (`created_at`), and an item by the daemon's own
    (`["createdAt"]`).
    """

    model_config = ConfigDict(extra="allow", populate_by_name=True, defer_build=True, protected_namespaces=())

    def __getitem__(self, key: str) -> Any:
        for name, field in type(self).model_fields.items():
            if key in (field.alias, name):
                return getattr(self, name)
        extra = self.model_extra or {}
        return extra[key]

    def __contains__(self, key: object) -> bool:
        return key in self.to_dict()

    def to_dict(self) -> Dict[str, Any]:
        """As the daemon said it."""
        return self.model_dump(by_alias=True, exclude_unset=True)

    def keys(self) -> List[str]:
        """The daemon's names of what it said."""
        return list(self.to_dict())


_adapters: Dict[str, Union[Type[Model], TypeAdapter[Any]]] = {}


def _reader(name: str) -> Union[Type[Model], TypeAdapter[Any]]:
    import cay._models as _models

    found = _adapters.get(name)
    if found is None:
        shape = getattr(_models, name)
        found = shape if isinstance(shape, type) and issubclass(shape, Model) else TypeAdapter(shape)
        _adapters[name] = found
    return found


def _not_as_promised(name: str, cause: ValidationError) -> ProviderError:
    first = cause.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return ProviderError(f"the daemon's answer is no {name}: {where}: {first['msg']}", code="bad_answer")


def from_json(name: str, content: bytes) -> Any:
    """The answer, as the model of that name."""
    reader = _reader(name)
    try:
        if isinstance(reader, TypeAdapter):
            return reader.validate_json(content)
        return reader.model_validate_json(content)
    except ValidationError as cause:
        raise _not_as_promised(name, cause) from None


def from_value(name: str, value: Any) -> Any:
    """A piece of a stream, as the model of that name."""
    reader = _reader(name)
    try:
        if isinstance(reader, TypeAdapter):
            return reader.validate_python(value)
        return reader.model_validate(value)
    except ValidationError as cause:
        raise _not_as_promised(name, cause) from None
