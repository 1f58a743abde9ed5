import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.api.CheckApi;
import org.openapitools.client.api.IntakeApi;
import org.openapitools.client.model.CheckAnswer;
import org.openapitools.client.model.Event;
import org.openapitools.client.model.EventTool;
import org.openapitools.client.model.Party;

/** An agent that repeats one call: weir checks each call, and learns its result. */
public class Check {
    public static void main(String[] args) throws Exception {
        ApiClient client = new ApiClient();
        client.updateBaseUri(args[0]);
        CheckApi checks = new CheckApi(client);
        IntakeApi intake = new IntakeApi(client);
        int ran = 0;
        try {
            for (; ran < 40; ran++) {
                EventTool tool = new EventTool().name("search").callId("c" + ran);
                Event call = new Event().kind(Event.KindEnum.TOOL_CALL).correlationId("java").from(new Party().agent("planner"))
                    .tool(tool.argsHash("xxh64:0000000000000001"));
                CheckAnswer answer = checks.check(call, "call-" + ran, null);
                if (!answer.getAllowed() || answer.getVerdict() == null) {
                    throw new IllegalStateException("an answer with status 200 allows: " + answer);
                }
                Event result = new Event().id("result-" + ran).kind(Event.KindEnum.TOOL_RESULT).correlationId("java").from(new Party().agent("planner"))
                    .tool(new EventTool().name("search").callId("c" + ran)).contentHash("xxh64:0000000000000002");
                intake.sendEvents(result, null);
            }
        } catch (ApiException e) {
            CheckAnswer answer = ApiClient.createDefaultObjectMapper().readValue(e.getResponseBody(), CheckAnswer.class);
            System.out.println(ran + " ran, then " + e.getCode() + " " + answer.getVerdict().getReasonCode() + ": " + answer.getVerdict().getAgentMessage());
        }
    }
}
