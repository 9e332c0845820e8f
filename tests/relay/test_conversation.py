import json
from typing import Any

from memory_mcp.relay.conversation import ConversationState


def line(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"


def send(conversation: ConversationState, **message: Any) -> None:
    if request := conversation.note_request(line(**message)):
        request.is_sent = True


def lost_ids(conversation: ConversationState) -> list[Any]:
    return [json.loads(lost["line"])["id"] for lost in conversation.take_lost()]


def test_requests_without_an_answer_are_lost_with_the_server() -> None:
    conversation = ConversationState()
    for id_ in (1, "1", 2, 3, "a,b"):
        send(conversation, id=id_, method="ping")
    conversation.note_answer(line(id=1, result={}))
    conversation.note_answer(line(id="a,b", result={}))
    conversation.note_answer(line(id=2, method="elicitation/create", params={}))  # a request of the server
    send(conversation, method="notifications/cancelled", params={"requestId": 3})

    assert lost_ids(conversation) == ["1", 2]
    assert [lost["attempts"] for lost in conversation.take_lost()] == [2, 2]


def test_a_request_that_was_not_sent_is_not_lost() -> None:
    conversation = ConversationState()
    conversation.note_request(line(id=1, method="ping"))
    assert conversation.take_lost() == []
    assert not conversation.is_settled


def test_requests_with_an_id_that_servers_do_not_answer_under_are_not_waited_for() -> None:
    conversation = ConversationState()
    for id_ in (None, 1.5, True, {"a": 1}):
        assert conversation.note_request(line(id=id_, method="ping")) is None
    assert conversation.is_settled


def test_the_setup_of_a_connection_is_kept_once_it_has_succeeded() -> None:
    conversation = ConversationState()
    hello = {"protocolVersion": "2025-11-25"}
    session = {"name": "set_session_id", "arguments": {"session_id": "mine"}}
    send(conversation, id=1, method="initialize", params=hello)
    conversation.note_answer(line(id=1, result={"serverInfo": {}}))
    send(conversation, method="notifications/initialized")
    for id_, uri in ((2, "a"), (3, "b"), (4, "gone")):
        send(conversation, id=id_, method="resources/subscribe", params={"uri": uri})
        conversation.note_answer(line(id=id_, **({"result": {}} if uri != "gone" else {"error": {"code": 1}})))
    send(conversation, id=5, method="resources/unsubscribe", params={"uri": "a"})
    conversation.note_answer(line(id=5, result={}))
    send(conversation, id=6, method="tools/call", params=session)
    conversation.note_answer(line(id=6, result={"isError": False}))
    send(conversation, id=7, method="tools/call", params={**session, "arguments": {}})
    conversation.note_answer(line(id=7, result={"isError": True}))

    assert conversation.setup() == [
        {"method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"method": "resources/subscribe", "params": {"uri": "b"}},
        {"method": "tools/call", "params": session},
    ]


def test_lines_that_are_no_messages_are_skipped() -> None:
    conversation = ConversationState()
    for odd in (b"not json\n", b"[]\n", b"[" * 100_000, b'{"id": 3}\n', b'{"method": 5, "id": 1}\n', b"\xff\n"):
        assert conversation.note_request(odd) is None
        conversation.note_answer(odd)
    assert conversation.is_settled
