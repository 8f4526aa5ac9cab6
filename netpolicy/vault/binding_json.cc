#include "netpolicy/vault/binding_json.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "netpolicy/vault/fields.h"
#include "runtime/base/json_text.h"

namespace atl::vault {
namespace {

using nlohmann::json;

Error At(std::string_view where, Error error) {
  return std::move(error).Wrap(where);
}

// Returns the results of `parse` for each element. An element that occurs twice is an error.
template <typename T, typename F>
Result<std::vector<T>> ParseList(const json& value, const std::string& where, size_t most,
                                 F parse) {
  ATOLL_TRY(CheckList(value, where, most));
  std::vector<T> list;
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string at = Element(where, i);
    ATOLL_ASSIGN(const std::string text, StringOf(value[i], at));
    Result<T> one = parse(text);
    if (!one) return Fail(At(at, std::move(one).error()));
    if (std::find(list.begin(), list.end(), *one) == list.end()) list.push_back(*std::move(one));
  }
  return list;
}

// Returns the element of `all` whose name is `text`.
template <typename T, size_t N>
Result<T> Named(std::string_view text, const std::array<T, N>& all, const char* (*name)(T)) {
  std::string choice;
  for (const T one : all) {
    if (text == name(one)) return one;
    choice.append(choice.empty() ? "use " : " or ").append(name(one));
  }
  return Fail(Code::kInvalidArgument, choice);
}

Result<Scheme> ParseScheme(std::string_view text) {
  constexpr std::array kAll = {Scheme::kHttps, Scheme::kHttp};
  return Named(LowerCase(Trimmed(text)), kAll, SchemeName);
}

Result<Surface> ParseSurface(std::string_view text) {
  constexpr std::array kAll = {Surface::kPath, Surface::kQuery, Surface::kHeader, Surface::kBody};
  return Named(LowerCase(Trimmed(text)), kAll, SurfaceName);
}

// Clients older than 1.0 still send ports. They add nothing to the scheme.
Status CheckPorts(const json& value, const std::string& where) {
  ATOLL_TRY(CheckList(value, where, 16));
  for (const json& port : value) {
    if (port != 80 && port != 443) {
      return Fail(WrongAt(where, "only 80 and 443 are intercepted, as the scheme says"));
    }
  }
  return {};
}

Result<Match> ParseMatch(const json& value, const std::string& where) {
  ATOLL_TRY(CheckMembers(value, where, {"schemes", "ports", "hosts", "methods", "paths"}));
  ATOLL_TRY(CheckPorts(Member(value, "ports"), where + ".ports"));
  Match match;
  ATOLL_ASSIGN(match.schemes,
               ParseList<Scheme>(Member(value, "schemes"), where + ".schemes", 8, ParseScheme));
  ATOLL_ASSIGN(match.hosts, ParseList<std::string>(Member(value, "hosts"), where + ".hosts",
                                                   kMaxBindingHosts, NormalHost));
  ATOLL_ASSIGN(match.methods, ParseList<std::string>(Member(value, "methods"), where + ".methods",
                                                     kMaxBindingMethods, NormalMethod));
  ATOLL_ASSIGN(match.paths, ParseList<std::string>(Member(value, "paths"), where + ".paths",
                                                   kMaxBindingPaths, NormalPath));
  if (match.hosts.empty()) return Fail(WrongAt(where + ".hosts", "name at least one"));
  if (match.schemes.empty()) match.schemes = {Scheme::kHttps};
  if (match.methods.empty()) match.methods = {"GET", "POST", "PUT", "PATCH", "DELETE"};
  if (match.paths.empty()) match.paths = {"/*"};
  return match;
}

Result<std::string> ParseReference(const json& value, const std::string& where) {
  ATOLL_ASSIGN(const std::string text, StringOf(value, where));
  auto name = NormalName(text);
  if (!name) return Fail(At(where, std::move(name).error()));
  return *std::move(name);
}

Result<HeaderEntry> ParseEntry(const json& value, const std::string& where) {
  HeaderEntry entry;
  ATOLL_ASSIGN(const std::string text, StringOf(Member(value, "name"), where + ".name"));
  auto name = NormalHeaderName(text);
  if (!name) return Fail(At(where + ".name", std::move(name).error()));
  entry.name = *std::move(name);
  ATOLL_ASSIGN(entry.credential,
               ParseReference(Member(value, "credential"), where + ".credential"));
  return entry;
}

Result<std::vector<HeaderEntry>> ParseEntries(const json& value, const std::string& where) {
  ATOLL_TRY(CheckList(value, where, kMaxBindingHeaders));
  std::vector<HeaderEntry> entries;
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string at = Element(where, i);
    ATOLL_TRY(CheckMembers(value[i], at, {"name", "credential"}));
    ATOLL_ASSIGN(HeaderEntry entry, ParseEntry(value[i], at));
    const bool twice = std::any_of(entries.begin(), entries.end(),
                                   [&](const HeaderEntry& one) { return one.name == entry.name; });
    if (twice) return Fail(WrongAt(at, "\"" + entry.name + "\" is there twice"));
    entries.push_back(std::move(entry));
  }
  if (entries.empty()) return Fail(WrongAt(where, "name at least one"));
  return entries;
}

Result<Substitution> ParseSubstitution(const json& value, const std::string& where) {
  ATOLL_TRY(CheckMembers(value, where, {"credential", "placeholder", "in"}));
  Substitution one;
  ATOLL_ASSIGN(one.credential, ParseReference(Member(value, "credential"), where + ".credential"));
  ATOLL_ASSIGN(const std::string text,
               StringOf(Member(value, "placeholder"), where + ".placeholder"));
  auto placeholder = NormalPlaceholder(text);
  if (!placeholder) return Fail(At(where + ".placeholder", std::move(placeholder).error()));
  one.placeholder = *std::move(placeholder);
  ATOLL_ASSIGN(one.in, ParseList<Surface>(Member(value, "in"), where + ".in", 8, ParseSurface));
  if (one.in.empty())
    return Fail(WrongAt(where + ".in", "name at least one of path, query, header, body"));
  return one;
}

Result<AuthKind> ParseKind(const json& value, const std::string& where) {
  constexpr std::array kAll = {AuthKind::kBearer, AuthKind::kBasic, AuthKind::kApiKey,
                               AuthKind::kCustomHeaders, AuthKind::kPassthrough};
  ATOLL_ASSIGN(const std::string text, StringOf(value, where));
  auto kind = Named(Trimmed(text), kAll, AuthKindName);
  if (!kind) return Fail(At(where, std::move(kind).error()));
  return *kind;
}

// Refuses members that the kind does not have, because the credential in them would never be sent.
Status CheckUnused(const json& value, const std::string& where, AuthKind kind) {
  const bool has_credential = kind == AuthKind::kBearer || kind == AuthKind::kBasic;
  const bool has_name = kind == AuthKind::kApiKey;
  const bool has_headers = kind == AuthKind::kCustomHeaders;
  for (const auto& [name, used] :
       {std::pair("credential", has_credential || has_name), std::pair("name", has_name),
        std::pair("headers", has_headers)}) {
    const json& member = Member(value, name);
    const bool blank = member.empty() || member == "";
    if (used || blank) continue;
    return Fail(
        WrongAt(Below(where, name), std::string(AuthKindName(kind)) + " does not have this"));
  }
  return {};
}

Result<Auth> ParseAuth(const json& value, const std::string& where) {
  ATOLL_TRY(CheckMembers(value, where, {"type", "credential", "name", "headers", "substitutions"}));
  Auth auth;
  ATOLL_ASSIGN(auth.kind, ParseKind(Member(value, "type"), where + ".type"));
  ATOLL_TRY(CheckUnused(value, where, auth.kind));
  if (auth.kind == AuthKind::kApiKey) {
    ATOLL_ASSIGN(HeaderEntry entry, ParseEntry(value, where));
    auth.headers.push_back(std::move(entry));
  } else if (auth.kind == AuthKind::kCustomHeaders) {
    ATOLL_ASSIGN(auth.headers, ParseEntries(Member(value, "headers"), where + ".headers"));
  } else if (auth.kind != AuthKind::kPassthrough) {
    ATOLL_ASSIGN(std::string name,
                 ParseReference(Member(value, "credential"), where + ".credential"));
    auth.headers.push_back({"Authorization", std::move(name)});
  }
  const json& substitutions = Member(value, "substitutions");
  const std::string below = where + ".substitutions";
  ATOLL_TRY(CheckList(substitutions, below, kMaxBindingSubstitutions));
  for (size_t i = 0; i < substitutions.size(); ++i) {
    ATOLL_ASSIGN(Substitution one, ParseSubstitution(substitutions[i], Element(below, i)));
    auth.substitutions.push_back(std::move(one));
  }
  return auth;
}

}  // namespace

Error WrongAt(std::string_view where, std::string_view what) {
  const std::string_view place = where.empty() ? "credential vault" : where;
  return Error(Code::kInvalidArgument, std::string(place).append(": ").append(what));
}

std::string Below(std::string_view where, std::string_view name) {
  if (where.empty()) return std::string(name);
  return std::string(where).append(".").append(name);
}

std::string Element(std::string_view where, size_t index) {
  return std::string(where).append("[").append(std::to_string(index)).append("]");
}

Result<json> ParseBounded(std::string_view text, size_t most) {
  if (text.size() > most) {
    return Fail(WrongAt("", "longer than the " + std::to_string(most) + " bytes of a vault"));
  }
  auto value = ParseJson(text, kMaxRuleLevels);
  if (!value) return Fail(WrongAt("", value.error().message()));
  return value;
}

Status CheckMembers(const json& value, std::string_view where,
                    std::initializer_list<std::string_view> names) {
  if (value.is_null()) return {};
  std::string ours;
  for (const std::string_view name : names) ours.append(ours.empty() ? "" : ", ").append(name);
  if (!value.is_object()) return Fail(WrongAt(where, "use an object with " + ours));
  for (const auto& [name, member] : value.items()) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    // The member's name is not repeated in the error: it may be a misplaced secret.
    return Fail(WrongAt(where, "a member that is not among " + ours));
  }
  return {};
}

const json& Member(const json& value, const char* name) {
  static const json kNothing;
  if (!value.is_object()) return kNothing;
  const auto found = value.find(name);
  return found == value.end() ? kNothing : *found;
}

Status CheckList(const json& value, std::string_view where, size_t most) {
  if (value.is_null()) return {};
  if (!value.is_array()) return Fail(WrongAt(where, "use a list"));
  if (value.size() <= most) return {};
  return Fail(WrongAt(where, std::to_string(value.size()) + " are more than the " +
                                 std::to_string(most) + " that there can be"));
}

Result<std::string> StringOf(const json& value, std::string_view where) {
  if (value.is_null()) return std::string();
  if (!value.is_string()) return Fail(WrongAt(where, "use a string"));
  return value.get<std::string>();
}

Result<Credential> ParseCredential(const json& value, std::string_view where) {
  Credential credential;
  ATOLL_ASSIGN(credential.name, ParseReference(Member(value, "name"), Below(where, "name")));
  const json& source = Member(value, "source");
  const std::string at = Below(where, "source");
  ATOLL_TRY(CheckMembers(source, at, {"type", "value"}));
  ATOLL_ASSIGN(const std::string type, StringOf(Member(source, "type"), at + ".type"));
  if (!type.empty() && Trimmed(type) != "inline") {
    return Fail(WrongAt(at + ".type", "use inline; other sources are not known"));
  }
  ATOLL_ASSIGN(credential.value, StringOf(Member(source, "value"), at + ".value"));
  if (auto checked = CheckValue(credential.value); !checked) {
    return Fail(At(at + ".value", std::move(checked).error()));
  }
  return credential;
}

Result<Binding> ParseBinding(const json& value, std::string_view where) {
  ATOLL_TRY(CheckMembers(value, where, {"name", "match", "auth"}));
  Binding binding;
  ATOLL_ASSIGN(binding.name, ParseReference(Member(value, "name"), Below(where, "name")));
  ATOLL_ASSIGN(binding.match, ParseMatch(Member(value, "match"), Below(where, "match")));
  ATOLL_ASSIGN(binding.auth, ParseAuth(Member(value, "auth"), Below(where, "auth")));
  return binding;
}

nlohmann::ordered_json MatchToJson(const Match& match) {
  nlohmann::ordered_json schemes = nlohmann::ordered_json::array();
  for (const Scheme scheme : match.schemes) schemes.push_back(SchemeName(scheme));
  return {{"schemes", std::move(schemes)},
          {"hosts", match.hosts},
          {"methods", match.methods},
          {"paths", match.paths}};
}

}  // namespace atl::vault
