#include "runtime/api/ingress/proxied_answer.h"

#include <gtest/gtest.h>

namespace atl::api {
namespace {

ProxiedAnswer Answer(RouteForm form) {
  ProxiedAnswer answer;
  answer.form = form;
  answer.host = "atoll.example:8080";
  answer.inside = "localhost:8000";
  if (form == RouteForm::kProxy) answer.prefix = "/sandboxes/i/proxy/8000";
  answer.path = "/a/b";
  return answer;
}

std::string Confined(const ProxiedAnswer& answer, std::vector<http::Header> fields,
                     int status = 200) {
  http::Headers headers{std::move(fields)};
  answer.Confine(status, &headers);
  std::string text;
  for (const http::Header& field : headers.list) text += field.name + ": " + field.value + "\n";
  return text;
}

constexpr char kSandboxed[] =
    "Content-Security-Policy: sandbox allow-downloads allow-forms allow-modals allow-pointer-lock "
    "allow-popups allow-popups-to-escape-sandbox allow-scripts\n";

TEST(ProxiedAnswer, NoOriginInFormsThatShareOurs) {
  const std::vector<http::Header> fields = {{"X-Kept", "1"},
                                            {"set-cookie", "a=b; Path=/"},
                                            {"Service-Worker-Allowed", "/"},
                                            {"STRICT-TRANSPORT-SECURITY", "max-age=9"},
                                            {"Clear-Site-Data", "\"*\""},
                                            {"Public-Key-Pins", "x"},
                                            {"Alt-Svc", "h3=\":1\""},
                                            {"NEL", "{}"},
                                            {"Report-To", "{}"},
                                            {"Accept-CH", "UA"},
                                            {"Content-Security-Policy", "default-src *"}};
  const std::string kept = "X-Kept: 1\nContent-Security-Policy: default-src *\n";
  EXPECT_EQ(Confined(Answer(RouteForm::kProxy), fields), kept + kSandboxed);
  EXPECT_EQ(Confined(Answer(RouteForm::kUri), fields), kept + kSandboxed);
  EXPECT_EQ(Confined(Answer(RouteForm::kHeader), fields),
            kept + kSandboxed + "Vary: OpenSandbox-Ingress-To\n");
  // An interim answer is filtered, too.
  EXPECT_EQ(Confined(Answer(RouteForm::kProxy), fields, 103), kept);
}

TEST(ProxiedAnswer, DebuggersTellHowTheyAreReached) {
  ProxiedAnswer answer = Answer(RouteForm::kProxy);
  const std::string told =
      R"({"devtoolsFrontendUrl":"https://f/i.html?ws=localhost:8000/devtools/page/1",)"
      R"("url":"http://localhost:8000/","webSocketDebuggerUrl":"ws://localhost:8000/devtools/page/1"})";
  EXPECT_EQ(
      answer.TellDebugger(told),
      R"({"devtoolsFrontendUrl":"https://f/i.html?ws=atoll.example:8080/sandboxes/i/proxy/8000)"
      R"(/devtools/page/1","url":"http://localhost:8000/","webSocketDebuggerUrl":)"
      R"("ws://atoll.example:8080/sandboxes/i/proxy/8000/devtools/page/1"})");
  answer.tls = true;
  const std::string secure = answer.TellDebugger(told);
  EXPECT_NE(secure.find("?wss=atoll.example:8080/sandboxes/"), std::string::npos);
  EXPECT_NE(secure.find("\"wss://atoll.example:8080/sandboxes/"), std::string::npos);
  // The host form has no prefix before its paths.
  EXPECT_NE(Answer(RouteForm::kHost).TellDebugger(told).find("\"ws://atoll.example:8080/devtools/"),
            std::string::npos);
  // A body that is not a debugger's answer, or would not remain valid, passes unchanged.
  EXPECT_EQ(answer.TellDebugger("ws://localhost:8000/"), "ws://localhost:8000/");
  for (const char* host : {"a\"b", "a\\b", "a b"}) {
    answer.host = host;
    EXPECT_EQ(answer.TellDebugger(told), told);
  }
  // A body that the replacement would make too large.
  std::string many = "\"webSocketDebuggerUrl\"";
  while (many.size() < 60'000) many += "ws://localhost:8000/";
  answer.host = std::string(60'000, 'h');
  EXPECT_EQ(answer.TellDebugger(many), many);
  for (const char* path : {"/json", "/json/", "/json/version", "/json/list/"}) {
    answer.path = path;
    EXPECT_TRUE(answer.MayTellDebugger()) << path;
  }
  for (const char* path : {"/", "/jsonp", "/a/json", "/json.html"}) {
    answer.path = path;
    EXPECT_FALSE(answer.MayTellDebugger()) << path;
  }
}

TEST(ProxiedAnswer, ThePortsOwnOriginIsItsOwn) {
  EXPECT_EQ(Confined(Answer(RouteForm::kHost),
                     {{"Set-Cookie", "a=b; Path=/; DOMAIN = example.org; Secure"},
                      {"Set-Cookie", "domain=x;domain"},
                      {"Service-Worker-Allowed", "/"},
                      {"Clear-Site-Data", "\"cookies\""},
                      {"Strict-Transport-Security", "max-age=9"}}),
            "Set-Cookie: a=b; Path=/; Secure\nSet-Cookie: domain=x\nService-Worker-Allowed: /\n");
}

TEST(ProxiedAnswer, OfOursOnlyWhatIsForEverybodyPasses) {
  EXPECT_EQ(Confined(Answer(RouteForm::kProxy),
                     {{"Server", "nginx"}, {"Set-Cookie", "a=b"}, {"X-Own", "c"}}),
            std::string("X-Own: c\n") + kSandboxed);
  EXPECT_EQ(Confined(Answer(RouteForm::kHost), {{"Server", "nginx"}}), "Server: nginx\n");
}

TEST(ProxiedAnswer, RedirectsStayBelowThePath) {
  ProxiedAnswer answer = Answer(RouteForm::kProxy);
  const std::string below = answer.prefix;
  const std::pair<const char*, std::string> cases[] = {
      {"/login?next=/x#y", below + "/login?next=/x#y"},
      {"/v1/sandboxes", below + "/v1/sandboxes"},
      {"c", below + "/a/c"},
      {"?q=1", below + "/a/b?q=1"},
      {"../c/./d", below + "/c/d"},
      {"../../../../../v1/shutdown", below + "/v1/shutdown"},
      {"%2e%2E/.%2e/..%2f/v1", below + "/..%2f/v1"},
      {"..\\..\\..\\..\\v1", below + "/v1"},
      {"/sandboxes/i/proxy/8000/c", below + "/c"},
      {"/sandboxes/i/proxy/8000/../80001", below + "/sandboxes/i/proxy/80001"},
      {"/sandboxes/i/proxy/8000/../../../../v1", below + "/v1"},
      {"/sandboxes/i/proxy/80001", below + "/sandboxes/i/proxy/80001"},
      {"http://localhost:8000/x", below + "/x"},
      {"HTTPS://LOCALHOST:8000", below + "/"},
      {"//localhost:8000/../x?q", below + "/x?q"},
      {"http://atoll.example:8080/v1/sandboxes", below + "/v1/sandboxes"},
      {"http://a@atoll.example:8080/v1", below + "/v1"},
      {"\\\\atoll.example:8080\\v1", below + "/v1"},
      {" /x ", below + "/x"},
      // A redirect to another site stays unchanged.
      {"https://login.example/x?a=/b", "https://login.example/x?a=/b"},
      {"//cdn.example/x", "//cdn.example/x"},
      {"mailto:a@b", "mailto:a@b"}};
  for (const auto& [to, where] : cases) EXPECT_EQ(answer.Redirect(to), where) << to;
  for (const char* to : {"http:/v1", "http:v1", "https:", "///host/x", "/\t/host", "http:///v1"}) {
    EXPECT_EQ(answer.Redirect(to), std::nullopt) << to;
  }
  EXPECT_EQ(Confined(answer, {{"Location", "http:v1"}, {"Refresh", "3; URL=/x"}}),
            "Refresh: 3; url=" + below + "/x\n" + kSandboxed);
  EXPECT_EQ(Confined(answer, {{"Refresh", "3"}, {"Refresh", "0;url='/v1'"}, {"Refresh", ";/v1"}}),
            std::string("Refresh: 3\n") + kSandboxed);
  // execd may not redirect a client that may have sent it the API key.
  answer.of_execd = true;
  EXPECT_EQ(answer.Redirect("https://login.example/"), std::nullopt);
  EXPECT_EQ(answer.Redirect("/x"), below + "/x");
}

TEST(ProxiedAnswer, RedirectsOfAnOriginOfItsOwn) {
  const ProxiedAnswer answer = Answer(RouteForm::kHost);
  EXPECT_EQ(answer.Redirect("/x"), "/x");
  EXPECT_EQ(answer.Redirect("../x"), "../x");
  EXPECT_EQ(answer.Redirect("http://localhost:8000//x?y"), "//atoll.example:8080//x?y");
  EXPECT_EQ(answer.Redirect("https://login.example/"), "https://login.example/");
}

}  // namespace
}  // namespace atl::api
