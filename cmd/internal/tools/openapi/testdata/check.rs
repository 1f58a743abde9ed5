//! An agent that repeats one call: weir checks each call, and learns its result.
use weir_client::apis::{check_api, configuration::Configuration, intake_api, Error};
use weir_client::models::{event::Kind, CheckAnswer, Event, EventTool, Party};

fn event(kind: Kind, call: &str) -> Event {
    let mut event = Event::new(kind);
    let mut from = Party::new();
    from.agent = Some("planner".into());
    let mut tool = EventTool::new("search".into());
    tool.call_id = Some(call.into());
    event.correlation_id = Some("rust".into());
    event.from = Some(Some(Box::new(from)));
    event.tool = Some(Box::new(tool));
    event
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut api = Configuration::new();
    api.base_path = std::env::args().nth(1).expect("the address of weir");
    for ran in 0..40 {
        let id = format!("call-{ran}");
        let mut call = event(Kind::ToolCall, &id);
        call.tool.as_mut().unwrap().args_hash = Some("xxh64:0000000000000001".into());
        match check_api::check(&api, call, Some(&id), None).await {
            Ok(answer) => assert!(answer.allowed && answer.verdict.is_some(), "an answer with status 200 allows"),
            Err(Error::ResponseError(refused)) => {
                let answer: CheckAnswer = serde_json::from_str(&refused.content).expect("an answer to a check");
                let verdict = answer.verdict.expect("a verdict");
                println!("{ran} ran, then {} {}: {}", refused.status.as_u16(), verdict.reason_code, verdict.agent_message.unwrap_or_default());
                return;
            }
            Err(other) => panic!("{other}"),
        }
        let mut result = event(Kind::ToolResult, &id);
        result.id = Some(format!("result-{ran}"));
        result.content_hash = Some("xxh64:0000000000000002".into());
        intake_api::send_events(&api, result, None).await.expect("the result is reported");
    }
}
