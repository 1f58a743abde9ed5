using System;
using System.Net;
using System.Net.Http;
using System.Text;

// An agent that repeats one call: weir checks each call, and reads the hash of its result.
class Check {
    static readonly HttpClient http = new HttpClient();

    static HttpResponseMessage Post(string url, string json) {
        return http.PostAsync(url, new StringContent(json, Encoding.UTF8, "application/json")).Result;
    }

    static void Main(string[] args) {
        for (int n = 0; n < 40; n++) {
            string call = "\"correlation_id\":\"dotnet\",\"from\":{\"agent\":\"planner\"},\"tool\":{\"name\":\"search\",\"call_id\":\"c" + n + "\"";
            HttpResponseMessage answer = Post(args[0] + "/v1/check", "{\"id\":\"call-" + n + "\",\"kind\":\"tool.call\"," + call + ",\"args_hash\":\"xxh64:0000000000000001\"}}");
            if (answer.StatusCode != HttpStatusCode.OK) {
                Console.WriteLine(n + " ran, then " + (int)answer.StatusCode + " " + answer.Content.ReadAsStringAsync().Result);
                return;
            }
            // The tool runs here.
            Post(args[0] + "/v1/events", "{\"id\":\"result-" + n + "\",\"kind\":\"tool.result\"," + call + "},\"content_hash\":\"xxh64:0000000000000002\"}");
        }
        Console.WriteLine("all ran");
    }
}
