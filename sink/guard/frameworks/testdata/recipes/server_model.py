import asyncio

from common import cid, run, search, task
from langgraph_script import Script

run({"model": Script(), "search": search}, lambda defined: asyncio.run(defined["answer"](cid, task)))
