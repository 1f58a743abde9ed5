"""A graph of LangGraph whose model, a script, wants to search three times."""

import json
import sys

from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from weir_guard import Guard
from weir_guard.langgraph import guarded

url, flow = sys.argv[1:]
ran = []


def search(query: str) -> str:
    """Searches."""
    ran.append(query)
    return "found"


def model(state: MessagesState) -> dict:
    asked = sum(isinstance(m, AIMessage) for m in state["messages"])
    calls = [{"name": "search", "args": {"query": "x"}, "id": f"c{asked}"}] if asked < 3 else []
    return {"messages": [AIMessage(content="", tool_calls=calls)]}


guard = Guard(url, quiet=True)
graph = StateGraph(MessagesState)
graph.add_node("model", model)
graph.add_node("tools", ToolNode([search], wrap_tool_call=guarded(guard, flow=flow, source="planner")))
graph.add_edge(START, "model")
graph.add_conditional_edges("model", lambda s: "tools" if s["messages"][-1].tool_calls else END)
graph.add_edge("tools", "model")
end = graph.compile().invoke({"messages": [("user", "search")]})
print(json.dumps({"ran": len(ran), "saw": [m.content for m in end["messages"] if m.type == "tool"]}))
guard.close()
