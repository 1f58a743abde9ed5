import json

from common import CALLS, arguments, run, search
from strands import tool
from strands.models import Model


class Script(Model):
    n = 0

    def get_config(self):
        return {}

    def update_config(self, **more):
        pass

    async def structured_output(self, *args, **more):
        raise NotImplementedError("this script has no such output")
        yield

    async def stream(self, *args, **more):
        self.n += 1
        yield {"messageStart": {"role": "assistant"}}
        if self.n <= CALLS:
            yield {"contentBlockStart": {"start": {"toolUse": {"toolUseId": f"c{self.n}", "name": "search"}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(arguments(self.n))}}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "tool_use"}}
        else:
            yield {"contentBlockDelta": {"delta": {"text": "done"}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn"}}


run({"model": Script(), "search": tool(search)})
