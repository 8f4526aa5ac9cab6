// atoll login, atoll logout, atoll whoami
#include "tools/atoll/client/login.h"

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/base/json_text.h"
#include "runtime/base/utc_time.h"
#include "tools/atoll/client/json_text.h"
#include "tools/atoll/client/sign_in.h"
#include "tools/atoll/verbs/verbs.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

using nlohmann::json;

Status WhoAmI(const Settings& settings) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const json who, Fetch(api, "/whoami"));
  if (settings.json) {
    std::puts(JsonText(who).c_str());
    return {};
  }
  const std::string tenant = TextOf(who, "tenant");
  const std::string subject = TextOf(who, "subject");
  if (!subject.empty()) std::printf("%s, ", Printable(subject).c_str());
  std::printf("%s of %s (%s)\n", Printable(TextOf(who, "role")).c_str(),
              tenant.empty() ? "the host" : Printable(tenant).c_str(),
              Printable(TextOf(who, "key")).c_str());
  for (const char* name : {"routes", "images", "max"}) {
    if (who.contains(name)) {
      std::printf("only %s: %s\n", name, Printable(JsonText(who[name])).c_str());
    }
  }
  if (const std::string recorded = TextOf(who, "recordsTerminals"); !recorded.empty()) {
    std::printf("terminals are recorded: %s\n",
                recorded == "input" ? "what they show, and what is typed" : "what they show");
  }
  ATOLL_ASSIGN(const auto login, KeptLogin(api.server_url()));
  if (!login || login->token != api.key()) return {};
  std::printf("signed in at %s until %s%s\n", Printable(login->issuer).c_str(),
              std::string(UtcTime(login->expires_s, 0, 0).text()).c_str(),
              login->refresh_token.empty() ? "" : ", then renewed");
  return {};
}

struct LoginOptions {
  std::string issuer, client_id, scope, audience;
};

Status LogIn(const Settings& settings, const LoginOptions& options) {
  ATOLL_ASSIGN(const std::string server, FindServerUrl(settings));
  ATOLL_ASSIGN(const auto before, KeptLogin(server));
  SignIn sign_in{.issuer = options.issuer,
                 .client_id = options.client_id,
                 .scope = options.scope,
                 .audience = options.audience};
  if (before && options.issuer.empty()) {
    sign_in.issuer = before->issuer;
    if (sign_in.client_id.empty()) sign_in.client_id = before->client_id;
    if (sign_in.scope.empty()) sign_in.scope = before->scope;
    if (sign_in.audience.empty()) sign_in.audience = before->audience;
  }
  if (sign_in.issuer.empty() || sign_in.client_id.empty()) {
    return Wrong(
        "name the identity provider with --issuer URL and --client-id ID, as the operator of the "
        "server has told you; the next 'atoll login' remembers them");
  }
  // Providers give a refresh token for offline_access.
  if (sign_in.scope.empty()) sign_in.scope = "openid offline_access";
  ATOLL_ASSIGN(const DeviceCode code, AskForCode(&sign_in));
  std::fprintf(stderr, "Open %s and enter the code %s\n", Printable(code.address).c_str(),
               Printable(code.user_code).c_str());
  if (!code.full_address.empty()) {
    std::fprintf(stderr, "or open %s\n", Printable(code.full_address).c_str());
  }
  ATOLL_TRY(AwaitConsent(code, &sign_in));
  // A sign-in that the server does not take is not worth keeping.
  Settings with_token = settings;
  with_token.api_key = sign_in.token;
  ATOLL_ASSIGN(Api api, Api::Connect(with_token));
  const auto who = Fetch(api, "/whoami");
  if (!who) {
    return Fail(Error(who.error())
                    .Wrap("the identity provider signed you in, but " + Printable(server) +
                          " does not let you in"));
  }
  ATOLL_TRY(KeepLogin(server, sign_in));
  Settings without_key = settings;
  without_key.api_key.clear();
  without_key.api_key_file.clear();
  without_key.server = server;
  return WhoAmI(without_key);
}

Status LogOut(const Settings& settings) {
  ATOLL_ASSIGN(const std::string server, FindServerUrl(settings));
  ATOLL_ASSIGN(const auto login, KeptLogin(server));
  if (!login) {
    std::fprintf(stderr, "you are not signed in at %s\n", Printable(server).c_str());
    return {};
  }
  ATOLL_TRY(DropLogin(server));
  const Status told = Withdraw(*login);
  if (!told) {
    std::fprintf(stderr,
                 "the identity provider was not told, so the sign-in can still be renewed: "
                 "%s\n",
                 told.error().message().c_str());
  }
  std::fprintf(stderr, "signed out of %s; the token itself expires %s\n", Printable(server).c_str(),
               std::string(UtcTime(login->expires_s, 0, 0).text()).c_str());
  return {};
}

}  // namespace

void AddLoginVerbs(Verb& root, const Settings& settings) {
  const auto options = std::make_shared<LoginOptions>();
  root.Add("login", "Sign in at an identity provider, with a code in your browser")
      .Takes(Option{"--issuer", "URL", "The identity provider; else that of the last login",
                    &options->issuer})
      .Takes(
          Option{"--client-id", "ID", "What the provider calls this program", &options->client_id})
      .Takes(Option{"--scope", "WORDS", "What to ask for; else 'openid offline_access'",
                    &options->scope})
      .Takes(Option{"--audience", "NAME", "Whom the token is for, if the provider asks",
                    &options->audience})
      .Says(
          "The sign-in is kept in ~/.config/atoll/login.json, which only you can read. It is sent\n"
          "only to the server for which you signed in, and renewed when it expires. A key\n"
          "(ATOLL_API_KEY) goes before it.\n\n"
          "Examples:\n"
          "  atoll login --issuer https://idp.example --client-id atoll-cli")
      .Does([options, &settings] { return LogIn(settings, *options); });
  root.Add("logout", "Forget the sign-in at the server, and end it at the identity provider")
      .Does([&settings] { return LogOut(settings); });
  root.Add("whoami", "Your tenant, your role and your key")
      .Says("Root reaches the local daemon without a key if the daemon has tenants.")
      .Does([&settings] { return WhoAmI(settings); });
}

}  // namespace atl::cli
