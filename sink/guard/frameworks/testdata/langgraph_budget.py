"""A graph of LangGraph whose model costs money. A call that is held interrupts the graph, which goes on
with the same call when a person has decided: one line on the standard input."""

import json
import sys

from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import MemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt
from weir_guard import Guard
from weir_guard.langgraph import guarded

url, flow, price, calls = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
ran = []


def search(query: str) -> str:
    """Searches."""
    ran.append(query)
    return "found " + query


def model(state: MessagesState) -> dict:
    guard.spent(flow, "planner", model="script", input_tokens=1000, output_tokens=10, cost_usd=price)
    n = len(ran)
    tools = [{"name": "search", "args": {"query": f"q{n}"}, "id": f"c{n}-{len(state['messages'])}"}] if n < calls else []
    return {"messages": [AIMessage(content="", tool_calls=tools)]}


def person(state: MessagesState) -> dict:
    interrupt({"held": state["messages"][-1].content, "ran": len(ran)})
    return {}


def after_tools(state: MessagesState) -> str:
    return "person" if state["messages"][-1].status == "error" else "model"


guard = Guard(url, quiet=True)
graph = StateGraph(MessagesState)
graph.add_node("model", model)
graph.add_node("tools", ToolNode([search], wrap_tool_call=guarded(guard, flow=flow, source="planner")))
graph.add_node("person", person)
graph.add_edge(START, "model")
graph.add_conditional_edges("model", lambda s: "tools" if s["messages"][-1].tool_calls else END)
graph.add_conditional_edges("tools", after_tools)
graph.add_edge("person", "model")
app = graph.compile(checkpointer=MemorySaver())
config = {"configurable": {"thread_id": flow}, "recursion_limit": 200}
end = app.invoke({"messages": [("user", "search")]}, config)
while "__interrupt__" in end:
    print(json.dumps(end["__interrupt__"][0].value), flush=True)
    sys.stdin.readline()
    end = app.invoke(Command(resume="decided"), config)
print(json.dumps({"held": "", "ran": len(ran)}), flush=True)
guard.close()
