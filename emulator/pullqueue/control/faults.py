"""Operations on the faults of the server."""

from __future__ import annotations

from pullqueue.api.errors import ApiError
from pullqueue.control.operations import Answer, Call


def list_faults(call: Call) -> Answer:
    """The faults that are set."""
    return Answer(body={"faults": call.state.faults.shown()})


def set_fault(call: Call) -> Answer:
    """Set a fault."""
    return Answer(body={"fault": call.state.faults.set(call.body)})


def remove_fault(call: Call) -> Answer:
    """Take one fault away."""
    text = call.values["number"]
    if not (text.isdecimal() and len(text) < 19 and call.state.faults.remove(int(text))):
        numbers = ", ".join(str(fault["number"]) for fault in call.state.faults.shown())
        advice = f"give one of {numbers}" if numbers else "none is set"
        message = f"there is no fault {text!r:.30}: {advice}"
        raise ApiError(message, status=404, reason="notFound")
    return Answer(body={"deleted": 1})


def clear_faults(call: Call) -> Answer:
    """Take all faults away."""
    return Answer(body={"deleted": call.state.faults.clear()})
