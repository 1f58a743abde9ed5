from common import run, search
from langgraph_script import Script

run({"model": Script(), "search": search})
