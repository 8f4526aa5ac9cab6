// Vaults as clients write and read them, their changes, and their encoding on the wire.
#include "netpolicy/vault/document.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "netpolicy/vault/document_json.h"
#include "netpolicy/vault/metadata_json.h"
#include "netpolicy/vault/policy_cover.h"
#include "netpolicy/vault/wire_json.h"
#include "tests/unit/vault/vaults.h"

namespace atl::vault {
namespace {

constexpr char kOne[] =
    "{'credentials':[{'name':' token ','source':{'type':'inline','value':'s3cret'}}],"
    "'bindings':[{'name':'api','match':{'hosts':['API.Example.com.']},"
    "'auth':{'type':'apiKey','name':'PRIVATE-TOKEN','credential':'token'}}]}";

// Returns a document with a binding "b" with this match and auth. The credential "c" has `value`.
std::string WithBinding(const std::string& match, const std::string& auth,
                        const std::string& value = "v") {
  return Json("{'credentials':[{'name':'c','source':{'value':'" + value +
              "'}}],'bindings':[{'name':'b','match':{" + match + "},'auth':{" + auth + "}}]}");
}
std::string WithMatch(const std::string& match) {
  return WithBinding(match, "'type':'bearer','credential':'c'");
}
std::string WithAuthText(const std::string& auth, const std::string& value = "v") {
  return WithBinding("'hosts':['a.example']", auth, value);
}

// Returns the message of a refusal. Every refusal must be the client's fault.
std::string Refusal(const Result<Vault>& vault) {
  if (vault) return "taken";
  EXPECT_EQ(vault.error().code(), Code::kInvalidArgument) << vault.error().message();
  return vault.error().message();
}
std::string Refusal(const std::string& json) {
  return Refusal(ParseVault(json));
}

#define EXPECT_REFUSED(json, part)                               \
  do {                                                           \
    const std::string refusal = Refusal(json);                   \
    EXPECT_NE(refusal.find(part), std::string::npos) << refusal; \
  } while (false)

TEST(Vault, IsTakenInItsNormalForm) {
  const Vault vault = MustParse(kOne);
  EXPECT_EQ(vault.revision, 1);
  ASSERT_EQ(vault.credentials.size(), 1U);
  EXPECT_EQ(vault.credentials[0].name, "token");
  EXPECT_EQ(vault.credentials[0].value, "s3cret");
  ASSERT_EQ(vault.bindings.size(), 1U);
  const Match& match = vault.bindings[0].match;
  EXPECT_EQ(match.schemes, std::vector{Scheme::kHttps});
  EXPECT_EQ(match.hosts, std::vector<std::string>{"api.example.com"});
  EXPECT_EQ(match.methods, (std::vector<std::string>{"GET", "POST", "PUT", "PATCH", "DELETE"}));
  EXPECT_EQ(match.paths, std::vector<std::string>{"/*"});
  EXPECT_EQ(vault.bindings[0].auth.headers[0].name, "Private-Token");
}

TEST(Vault, MayBeEmpty) {
  for (const char* text : {"{}", "{'credentials':[],'bindings':[]}", "{'credentials':null}"}) {
    EXPECT_TRUE(MustParse(text).credentials.empty());
  }
}

TEST(Vault, ListsAreWithoutBlanksAndRepetitions) {
  const Vault vault = *ParseVault(
      WithMatch("'schemes':[' HTTP ','http'],'ports':[80,443],'methods':[' get','GET','Purge'],"
                "'hosts':['a.example','A.EXAMPLE.',' *.a.example'],'paths':[' /v1/* ','/v1/*']"));
  const Match& match = vault.bindings[0].match;
  EXPECT_EQ(match.schemes, std::vector{Scheme::kHttp});
  EXPECT_EQ(match.methods, (std::vector<std::string>{"GET", "PURGE"}));
  EXPECT_EQ(match.hosts, (std::vector<std::string>{"a.example", "*.a.example"}));
  EXPECT_EQ(match.paths, std::vector<std::string>{"/v1/*"});
}

TEST(Vault, EveryKindOfAuth) {
  for (const char* auth : {"'type':'bearer','credential':'c'", "'type':'basic','credential':'c'",
                           "'type':'apiKey','name':'X-Key','credential':'c'",
                           "'type':'customHeaders','headers':[{'name':'X-A','credential':'c'}]",
                           "'type':'passthrough'",
                           "'type':'passthrough','credential':null,'headers':[],'name':'',"
                           "'substitutions':[{'credential':'c','placeholder':' {{c}} ','in':"
                           "['path','QUERY','header','body','path']}]"}) {
    EXPECT_TRUE(ParseVault(WithAuthText(auth))) << auth;
  }
}

TEST(Vault, RefusesWhatIsNoVault) {
  for (const char* text : {"", "[]", "1", "{", "{}x", "{'credentials':{}}", "{'secrets':[]}",
                           "{'credentials':[{'name':'c'}]}", "{'credentials':[null]}",
                           "{'credentials':['c']}", "{'revision':3}"}) {
    EXPECT_NE(Refusal(Json(text)), "taken") << text;
  }
  EXPECT_REFUSED(std::string(100000, '['), "nested");
  EXPECT_REFUSED(std::string(17, '[') + std::string(17, ']'), "nested");
  EXPECT_REFUSED(std::string(kMaxVaultJson + 1, ' '), "longer than");
  EXPECT_REFUSED(Json("{'credentials':[{'name':'c','source':{'value':'v'},'revision':1}]}"),
                 "credentials[0]: a member that is not among name, source");
  EXPECT_REFUSED(Json("{'credentials':[{'name':'c','source':{'value':'v','url':'x'}}]}"),
                 "credentials[0].source: a member");
  EXPECT_REFUSED(WithMatch("'hosts':['a.example'],'requestHeaders':[]"), "bindings[0].match: a m");
}

TEST(Vault, RefusesCredentialsThatAreNone) {
  const auto with = [](const std::string& name, const std::string& source) {
    return Json("{'credentials':[{'name':" + name + ",'source':{" + source + "}}]}");
  };
  EXPECT_REFUSED(with("' '", "'value':'v'"), "credentials[0].name: a name cannot be empty");
  EXPECT_REFUSED(with("'a\\nb'", "'value':'v'"), "control character");
  EXPECT_REFUSED(with("'" + std::string(257, 'n') + "'", "'value':'v'"), "more than the 256");
  EXPECT_REFUSED(with("'c'", "'value':''"), "credentials[0].source.value: the value cannot");
  EXPECT_REFUSED(with("'c'", "'value':7"), "source.value: use a string");
  EXPECT_REFUSED(with("'c'", "'type':'vault','value':'v'"), "source.type");
  EXPECT_REFUSED(with("'c'", "'value':'" + std::string(kMaxValue + 1, 'x') + "'"), "65537 bytes");
  EXPECT_REFUSED(Json("{'credentials':[{'name':'c','source':{'value':'v'}},"
                      "{'name':'c ','source':{'value':'w'}}]}"),
                 "credential \"c\" is there twice");
}

TEST(Vault, RefusesHostsThatAreNoFullNames) {
  for (const char* host : {"",
                           " ",
                           "localhost",
                           "*",
                           "*.",
                           "*.com",
                           "*.*.example.com",
                           "a.*.example.com",
                           "*a.example.com",
                           "192.0.2.1",
                           "*.192.0.2.1",
                           "127.1",
                           "0x7f.0x1",
                           "2001:db8::1",
                           "[::1]",
                           "a.example:443",
                           "https://a.example",
                           "a.example/x",
                           "a_b.example",
                           "-a.example",
                           "a-.example",
                           "a..example",
                           ".example.com",
                           "a.example..",
                           "a b.example",
                           "a.example\\u0000",
                           "b\\u00fccher.example"}) {
    EXPECT_REFUSED(WithMatch(std::string("'hosts':['") + host + "']"), "match.hosts[0]: ");
  }
  EXPECT_REFUSED(WithMatch("'hosts':[]"), "match.hosts: name at least one");
  EXPECT_REFUSED(WithMatch("'hosts':['" + std::string(64, 'a') + ".example']"), "is no host");
  std::string longest;
  for (int i = 0; i < 4; ++i) longest += std::string(62, 'a') + ".";
  EXPECT_TRUE(ParseVault(WithMatch("'hosts':['" + longest + "b']")));
  EXPECT_REFUSED(WithMatch("'hosts':['" + longest + "bc']"), "is no host");
}

TEST(Vault, RefusesOtherPartsOfAMatch) {
  const std::string host = "'hosts':['a.example'],";
  EXPECT_REFUSED(WithMatch(host + "'schemes':['ftp']"), "schemes[0]: use https or http");
  EXPECT_REFUSED(WithMatch(host + "'ports':[8443]"), "match.ports: only 80 and 443");
  EXPECT_REFUSED(WithMatch(host + "'methods':['']"), "methods[0]");
  EXPECT_REFUSED(WithMatch(host + "'methods':['GET x']"), "is no method");
  EXPECT_REFUSED(WithMatch(host + "'paths':['v1']"), "does not start with /");
  EXPECT_REFUSED(WithMatch(host + "'paths':['*']"), "does not start with /");
  EXPECT_REFUSED(WithMatch(host + "'paths':['/a b']"), "blank");
  EXPECT_REFUSED(WithMatch(host + "'paths':['/" + std::string(kMaxPath, 'a') + "']"), "2048");
}

TEST(Vault, RefusesOtherAuths) {
  EXPECT_REFUSED(WithAuthText(""), "auth.type: use bearer or basic or apiKey or customHeaders or");
  EXPECT_REFUSED(WithAuthText("'type':'Bearer','credential':'c'"), "auth.type");
  EXPECT_REFUSED(WithAuthText("'type':'bearer'"), "auth.credential: a name cannot be empty");
  EXPECT_REFUSED(WithAuthText("'type':'bearer','credential':'d'"), "\"d\" does not exist");
  EXPECT_REFUSED(WithAuthText("'type':'customHeaders','headers':[]"), "headers: name at least one");
  EXPECT_REFUSED(WithAuthText("'type':'passthrough','credential':'c'"),
                 "auth.credential: passthrough does not have this");
  EXPECT_REFUSED(WithAuthText("'type':'bearer','credential':'c','name':'X-A'"),
                 "auth.name: bearer");
  EXPECT_REFUSED(WithAuthText("'type':'customHeaders','headers':[{'name':'X-A','credential':'c'},"
                              "{'name':'x-a','credential':'c'}]"),
                 "headers[1]: \"X-A\" is there twice");
  for (const char* name :
       {"host", "Content-Length", "content-type", "Transfer-Encoding", "connection", "upgrade",
        "te", "trailer", "Proxy-Authorization", "proxy-authenticate", "forwarded",
        "X-Forwarded-For", "x-forwarded-host", "x-forwarded-proto", "keep-alive", "expect"}) {
    EXPECT_REFUSED(
        WithAuthText(std::string("'type':'apiKey','credential':'c','name':'") + name + "'"),
        "is a reserved header");
  }
  EXPECT_REFUSED(WithAuthText("'type':'apiKey','credential':'c','name':'X Key'"),
                 "no name of a he");
  EXPECT_REFUSED(WithAuthText("'type':'apiKey','credential':'c','name':'X:Key'"),
                 "no name of a he");
}

TEST(Vault, RefusesOtherSubstitutions) {
  const auto with = [](const std::string& one) {
    return WithAuthText("'type':'passthrough','substitutions':[{" + one + "}]");
  };
  EXPECT_REFUSED(with("'placeholder':'p','in':['path']"), "substitutions[0].credential");
  EXPECT_REFUSED(with("'credential':'c','in':['path']"), "placeholder: a placeholder cannot be em");
  EXPECT_REFUSED(with("'credential':'c','placeholder':'p'"), "substitutions[0].in: name at least");
  EXPECT_REFUSED(with("'credential':'c','placeholder':'p','in':['cookie']"),
                 "in[0]: use path or q");
  EXPECT_REFUSED(with("'credential':'d','placeholder':'p','in':['body']"), "\"d\" does not exist");
  EXPECT_REFUSED(with("'credential':'c','placeholder':'" + std::string(kMaxPlaceholder + 1, 'p') +
                      "','in':['body']"),
                 "1025 bytes");
}

// A line end in a header would begin another header, and two would begin another request.
TEST(Vault, RefusesValuesThatNoHeaderCanHave) {
  const std::string bearer = "'type':'bearer','credential':'c'";
  const std::string header =
      "'type':'passthrough','substitutions':[{'credential':'c','placeholder':'p','in':['header']}]";
  for (const char* value : {"a\\r\\nX: y", "a\\n", "a\\rb", "a\\u0000b", "\\u0001", "\\u007f"}) {
    EXPECT_REFUSED(WithAuthText(bearer, value), "has a character that no header can have");
    EXPECT_REFUSED(WithAuthText(header, value), "has a character that no header can have");
    // A line end does no harm if it is encoded or in a body: a key in PEM has line ends.
    EXPECT_TRUE(ParseVault(
        WithAuthText("'type':'passthrough','substitutions':[{'credential':'c','placeholder':'p',"
                     "'in':['body','query']}]",
                     value)));
  }
  EXPECT_TRUE(ParseVault(WithAuthText(bearer, "a b\\tc \\u00fc")));
  const std::string longer(kMaxHeadValue + 1, 'x');
  EXPECT_REFUSED(WithAuthText(bearer, longer), "16385 bytes, which is more");
  // A change must not make such a value either.
  const Vault vault = *ParseVault(WithAuthText(bearer));
  EXPECT_REFUSED(Patch(vault, Json("{'credentials':{'replace':[{'name':'c','source':{'value':"
                                   "'x\\r\\ny'}}]}}")),
                 "has a character that no header can have");
}

TEST(Vault, RefusesMoreThanItCanHave) {
  const auto many = [](size_t count, const std::function<std::string(size_t)>& one) {
    std::string list;
    for (size_t i = 0; i < count; ++i) list.append(i > 0 ? "," : "").append(one(i));
    return list;
  };
  const auto credential = [](size_t i) {
    return "{'name':'c" + std::to_string(i) + "','source':{'value':'v'}}";
  };
  const auto binding = [&](size_t hosts) {
    return [&many, hosts](size_t i) {
      const auto host = [&](size_t j) {
        return "'h" + std::to_string(j) + ".n" + std::to_string(i) + ".example'";
      };
      return "{'name':'b" + std::to_string(i) + "','match':{'hosts':[" + many(hosts, host) +
             "]},'auth':{'type':'passthrough'}}";
    };
  };
  EXPECT_TRUE(ParseVault(Json("{'credentials':[" + many(256, credential) + "],'bindings':[" +
                              many(256, binding(4)) + "]}")));
  EXPECT_REFUSED(Json("{'credentials':[" + many(257, credential) + "]}"),
                 "257 are more than the 2");
  EXPECT_REFUSED(Json("{'bindings':[" + many(257, binding(1)) + "]}"), "257 are more than the 256");
  EXPECT_REFUSED(Json("{'bindings':[" + many(1, binding(129)) + "]}"), "129 are more than the 128");
  EXPECT_REFUSED(Json("{'bindings':[" + many(205, binding(5)) + "]}"),
                 "1025 hosts of bindings are");
  const std::string substitution = "{'credential':'c','placeholder':'p','in':['body']}";
  EXPECT_REFUSED(WithAuthText("'type':'passthrough','substitutions':[" +
                              many(33, [&](size_t) { return substitution; }) + "]"),
                 "33 are more than the 32");
  // Several small changes cannot exceed the limit either.
  Vault vault = MustParse("{}");
  std::string last;
  for (int i = 0; i < 20 && last.empty(); ++i) {
    auto next =
        Patch(vault, Json("{'credentials':{'add':[{'name':'" + std::to_string(i) +
                          "','source':{'value':'" + std::string(kMaxValue, 'x') + "'}}]}}"));
    if (next)
      vault = *std::move(next);
    else
      last = Refusal(next);
  }
  EXPECT_NE(last.find("bytes are more than the 1048576 of a vault"), std::string::npos) << last;
}

TEST(Vault, RefusesBindingsOfTheSameRequests) {
  const auto two = [](const std::string& one, const std::string& other) {
    return Json("{'bindings':[{'name':'a','match':{" + one +
                "},'auth':{'type':'passthrough'}},{'name':'b','match':{" + other +
                "},'auth':{'type':'passthrough'}}]}");
  };
  EXPECT_REFUSED(two("'hosts':['x.example']", "'hosts':['y.example','x.example']"),
                 "bindings \"a\" and \"b\" take the same requests");
  EXPECT_REFUSED(two("'hosts':['*.example.com']", "'hosts':['*.b.example.com']"), "take the same");
  EXPECT_REFUSED(two("'hosts':['x.example'],'paths':['/v1/*']",
                     "'hosts':['x.example'],'paths':['/v2','/v1/a']"),
                 "take the same");
  EXPECT_REFUSED(
      two("'hosts':['x.example'],'paths':['/v*']", "'hosts':['x.example'],'paths':['/v1/*']"),
      "take the same");
  EXPECT_TRUE(ParseVault(two("'hosts':['*.example.com']", "'hosts':['x.example.com']")));
  EXPECT_TRUE(ParseVault(two("'hosts':['*.example.com']", "'hosts':['*.anexample.com']")));
  EXPECT_TRUE(ParseVault(
      two("'hosts':['x.example'],'methods':['GET']", "'hosts':['x.example'],'methods':['POST']")));
  EXPECT_TRUE(ParseVault(two("'hosts':['x.example'],'schemes':['http']", "'hosts':['x.example']")));
  EXPECT_TRUE(ParseVault(two("'hosts':['x.example'],'paths':['/v1/*']",
                             "'hosts':['x.example'],'paths':['/v1','/v2/*']")));
}

// The refused text is often a secret in the wrong place, so an error must not repeat it.
TEST(Vault, ErrorsRepeatNoSecret) {
  const std::string secret = "hunter2hunter2";
  const std::string value = "{'value':'" + secret + "'}";
  for (const std::string& text : std::vector<std::string>{
           "{'credentials':[{'name':'c','source':{'value':'" + secret + "\\ud800'}}]}",
           "{'credentials':[{'name':'c','source':{'value':'" + secret + "'",
           "{'credentials':[{'name':'c','source':'" + secret + "'}]}",
           "{'credentials':[{'name':'c','source':{'" + secret + "':'v'}}]}",
           "{'credentials':[{'name':'c','source':{'type':'" + secret + "','value':'v'}}]}",
           "{'" + secret + "':1}"}) {
    EXPECT_EQ(Refusal(Json(text)).find(secret), std::string::npos) << Refusal(Json(text));
  }
  EXPECT_EQ(Refusal(WithAuthText("'type':'bearer','credential':'c'", secret + "\\n")).find(secret),
            std::string::npos);
  EXPECT_EQ(Refusal(WithAuthText("'type':'passthrough','substitutions':[{'credential':'c',"
                                 "'placeholder':'" +
                                 secret + "','in':['x']}]"))
                .find(secret),
            std::string::npos);
}

TEST(VaultPatch, DeletesThenReplacesThenAdds) {
  const Vault vault = MustParse(
      "{'credentials':[{'name':'a','source':{'value':'1'}},{'name':'b','source':{'value':'2'}}]}");
  const auto next = Patch(vault, Json("{'expectedRevision':1,'credentials':{"
                                      "'add':[{'name':'A','source':{'value':'4'}}],"
                                      "'replace':[{'name':'b','source':{'value':'3'}}],"
                                      "'delete':[' a ']}}"));
  ASSERT_TRUE(next) << next.error().message();
  EXPECT_EQ(next->revision, 2);
  EXPECT_EQ(CredentialListMetadata(*next),
            Json("{'revision':2,'credentials':[{'name':'A','sourceType':'inline','revision':2},"
                 "{'name':'b','sourceType':'inline','revision':2}]}"));
  EXPECT_EQ(FindCredential(*next, "b")->value, "3");
  // An unchanged part keeps its revision. An empty change is a change, too.
  const auto third = Patch(*next, "{}");
  ASSERT_TRUE(third);
  EXPECT_EQ(third->revision, 3);
  EXPECT_EQ(FindCredential(*third, "b")->revision, 2);
}

TEST(VaultPatch, IsAllOrNothing) {
  const Vault vault = MustParse(kOne);
  // The change would delete the credential but not its binding.
  EXPECT_REFUSED(Patch(vault, Json("{'credentials':{'delete':['token']}}")), "does not exist");
  EXPECT_TRUE(FindCredential(vault, "token"));
  const auto both =
      Patch(vault, Json("{'credentials':{'delete':['token']},'bindings':{'delete':['api']}}"));
  ASSERT_TRUE(both);
  EXPECT_EQ(VaultMetadata(*both), Json("{'revision':2,'credentials':[],'bindings':[]}"));
}

TEST(VaultPatch, RefusesAnotherRevision) {
  const Vault vault = MustParse(kOne);
  for (const char* revision : {"0", "2", "-1", "18446744073709551615"}) {
    const auto next = Patch(vault, Json(std::string("{'expectedRevision':") + revision + "}"));
    ASSERT_FALSE(next) << revision;
    EXPECT_EQ(next.error().code(), Code::kFailedPrecondition);
    EXPECT_NE(next.error().message().find("does not match current revision 1"), std::string::npos);
  }
  EXPECT_TRUE(Patch(vault, Json("{'expectedRevision':null}")));
  EXPECT_REFUSED(Patch(vault, Json("{'expectedRevision':'1'}")), "expectedRevision: use a whole");
  EXPECT_REFUSED(Patch(vault, Json("{'expectedRevision':1.0}")), "expectedRevision: use a whole");
}

TEST(VaultPatch, RefusesTwoOperationsOnOneName) {
  const Vault vault = MustParse(
      "{'credentials':[{'name':'a','source':{'value':'1'}}],'bindings':[{'name':'b','match':"
      "{'hosts':['x.example']},'auth':{'type':'passthrough'}}]}");
  const std::string a = "[{'name':'a','source':{'value':'2'}}]";
  const std::string b =
      "[{'name':'b','match':{'hosts':['y.example']},'auth':{'type':'passthrough'}}]";
  for (const char* section :
       {"'credentials':{'delete':['a','a ']}", "'bindings':{'delete':['b','b']}"}) {
    EXPECT_REFUSED(Patch(vault, Json(std::string("{") + section + "}")),
                   "stands in two operations");
  }
  for (const std::string& section : {"'credentials':{'delete':['a'],'add':" + a + "}",
                                     "'credentials':{'delete':['a'],'replace':" + a + "}",
                                     "'credentials':{'add':" + a + ",'replace':" + a + "}",
                                     "'bindings':{'delete':['b'],'add':" + b + "}",
                                     "'bindings':{'replace':" + b + ",'add':" + b + "}"}) {
    EXPECT_REFUSED(Patch(vault, Json("{" + section + "}")), "stands in two operations");
  }
  EXPECT_REFUSED(Patch(vault, Json("{'credentials':{'add':" + a + "}}")), "already exists");
  EXPECT_REFUSED(Patch(vault, Json("{'bindings':{'add':" + b + "}}")), "already exists");
  EXPECT_REFUSED(Patch(vault, Json("{'bindings':{'delete':['x']}}")), "\"x\" does not exist");
  EXPECT_REFUSED(Patch(vault, Json("{'credentials':{'replace':[{'name':'x','source':{'value':"
                                   "'v'}}]}}")),
                 "\"x\" does not exist");
  EXPECT_REFUSED(Patch(vault, Json("{'credentials':{'delete':['']}}")), "a name cannot be empty");
  EXPECT_REFUSED(Patch(vault, Json("{'credentials':{'update':[]}}")), "credentials: a member");
  EXPECT_REFUSED(Patch(vault, Json("{'policy':{}}")), "a member that is not among");
}

TEST(VaultMetadata, HasNoSecrets) {
  const Vault vault = MustParse(
      "{'credentials':[{'name':'z','source':{'value':'V-ONE'}},{'name':'a','source':{'value':"
      "'V-TWO'}}],'bindings':["
      "{'name':'keys','match':{'schemes':['http'],'ports':[80],'hosts':['x.example'],'methods':"
      "['GET'],'paths':['/a']},'auth':{'type':'apiKey','name':'x-api-key','credential':'z',"
      "'substitutions':[{'credential':'a','placeholder':'PLACE','in':['body']}]}},"
      "{'name':'custom','match':{'hosts':['*.y.example']},'auth':{'type':'customHeaders',"
      "'headers':[{'name':'X-Hidden','credential':'a'}]}}]}");
  const std::string keys =
      "{'name':'keys','revision':1,'match':{'schemes':['http'],'hosts':['x.example'],"
      "'methods':['GET'],'paths':['/a']},'auth':{'type':'apiKey','name':'X-Api-Key'}}";
  const std::string custom =
      "{'name':'custom','revision':1,'match':{'schemes':['https'],'hosts':['*.y.example'],"
      "'methods':['GET','POST','PUT','PATCH','DELETE'],'paths':['/*']},"
      "'auth':{'type':'customHeaders'}}";
  const std::string credentials =
      "'credentials':[{'name':'a','sourceType':'inline','revision':1},"
      "{'name':'z','sourceType':'inline','revision':1}]";
  EXPECT_EQ(VaultMetadata(vault),
            Json("{'revision':1," + credentials + ",'bindings':[" + custom + "," + keys + "]}"));
  EXPECT_EQ(CredentialListMetadata(vault), Json("{'revision':1," + credentials + "}"));
  EXPECT_EQ(BindingListMetadata(vault),
            Json("{'revision':1,'bindings':[" + custom + "," + keys + "]}"));
  EXPECT_EQ(CredentialMetadata(vault, " z "),
            Json("{'name':'z','sourceType':'inline','revision':1}"));
  EXPECT_EQ(BindingMetadata(vault, "keys"), Json(keys));
  EXPECT_FALSE(CredentialMetadata(vault, "keys"));
  EXPECT_FALSE(BindingMetadata(vault, "z"));
}

TEST(VaultCover, AsksThePolicyAboutEachHost) {
  const Vault vault = MustParse(
      "{'bindings':[{'name':'a','match':{'schemes':['http','https'],'hosts':['x.example']},"
      "'auth':{'type':'passthrough'}},{'name':'b','match':{'hosts':['*.y.example']},"
      "'auth':{'type':'passthrough'}}]}");
  std::string asked;
  const auto note = [&](std::string_view name, uint16_t port) {
    asked.append(name).append(":").append(std::to_string(port)).append(" ");
    return true;
  };
  EXPECT_TRUE(CheckCovered(vault, note));
  EXPECT_EQ(asked, "x.example:80 x.example:443 probe.y.example:443 ");
  const auto refused =
      CheckCovered(vault, [](std::string_view name, uint16_t) { return name == "x.example"; });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kInvalidArgument);
  EXPECT_EQ(refused.error().message(),
            "binding \"b\" host \"*.y.example\" is not allowed by the egress policy (https)");
  EXPECT_FALSE(CheckCovered(vault, [](std::string_view, uint16_t port) { return port == 443; }));
  // There is no policy at all.
  EXPECT_FALSE(CheckCovered(vault, nullptr));
  EXPECT_TRUE(CheckCovered(MustParse("{}"), nullptr));
}

constexpr char kFull[] =
    "{'credentials':[{'name':'a','source':{'value':'\\u0001 \\u00fc \\\\'}},{'name':'b','source':"
    "{'value':'v'}}],'bindings':["
    "{'name':'1','match':{'hosts':['a.example']},'auth':{'type':'bearer','credential':'b'}},"
    "{'name':'2','match':{'hosts':['b.example']},'auth':{'type':'basic','credential':'b'}},"
    "{'name':'3','match':{'hosts':['c.example']},'auth':{'type':'apiKey','name':'X-A',"
    "'credential':'b'}},"
    "{'name':'4','match':{'hosts':['*.d.example'],'paths':['/x']},'auth':{'type':'customHeaders',"
    "'headers':[{'name':'X-A','credential':'b'},{'name':'X-B','credential':'b'}],"
    "'substitutions':[{'credential':'a','placeholder':'p','in':['body','query']}]}},"
    "{'name':'5','match':{'schemes':['http','https'],'hosts':['e.example']},"
    "'auth':{'type':'passthrough'}}]}";

TEST(VaultWire, CarriesEverything) {
  const auto patched = Patch(MustParse(kFull),
                             Json("{'credentials':{'add':[{'name':'c','source':{'value':'w'}}]}}"));
  ASSERT_TRUE(patched);
  const std::string bytes = Encode(*patched);
  const auto again = Decode(bytes);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(Encode(*again), bytes);
  EXPECT_EQ(VaultMetadata(*again), VaultMetadata(*patched));
  EXPECT_EQ(FindCredential(*again, "a")->value, "\x01 \xc3\xbc \\");
  EXPECT_EQ(FindCredential(*again, "c")->revision, 2);
  const Auth& auth = FindBinding(*again, "4")->auth;
  ASSERT_EQ(auth.headers.size(), 2U);
  EXPECT_EQ(auth.headers[1].name, "X-B");
  ASSERT_EQ(auth.substitutions.size(), 1U);
  EXPECT_EQ(auth.substitutions[0].placeholder, "p");
  EXPECT_TRUE(auth.substitutions[0].Has(Surface::kQuery));
  EXPECT_FALSE(auth.substitutions[0].Has(Surface::kPath));
}

TEST(VaultWire, TakesNoNonsense) {
  for (const char* text :
       {"", "{}", "{'revision':0}", "{'revision':-1}", "{'revision':1.5}",
        "{'revision':9223372036854775808}", "{'revision':1,'more':1}",
        "{'revision':1,'credentials':[{'name':'a','source':{'value':'v'}}]}",
        "{'revision':1,'credentials':[{'name':'a','source':{'value':'v'},'revision':2}]}",
        "{'revision':1,'credentials':[{'name':'b','source':{'value':'v'},'revision':1},"
        "{'name':'a','source':{'value':'v'},'revision':1}]}",
        "{'revision':1,'bindings':[{'name':'a','match':{'hosts':['a']},"
        "'auth':{'type':'passthrough'}}]}",
        "{'revision':1,'bindings':[{'name':'a','match':{'hosts':['a.example']},"
        "'auth':{'type':'bearer','credential':'gone'}}]}"}) {
    EXPECT_NE(Refusal(Decode(Json(text))), "taken") << text;
  }
  EXPECT_TRUE(Decode(Json("{'revision':9223372036854775807}")));
  EXPECT_REFUSED(Decode(std::string(kMaxEncoded + 1, ' ')), "longer than");
}

// The reader's limit must not be below the size of what the writer makes.
TEST(VaultWire, HasRoomForTheLargestVault) {
  Vault vault;
  for (int i = 0; i < 16; ++i) {
    vault.credentials.push_back(
        {std::string(1, static_cast<char>('a' + i)), std::string(kMaxValue - 1, '\x01'), 1});
  }
  ASSERT_TRUE(Check(vault)) << Check(vault).error().message();
  const std::string bytes = Encode(vault);
  EXPECT_LE(bytes.size(), kMaxEncoded);
  EXPECT_TRUE(Decode(bytes));
}

}  // namespace
}  // namespace atl::vault
