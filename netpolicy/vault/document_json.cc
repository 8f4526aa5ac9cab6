#include "netpolicy/vault/document_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "netpolicy/vault/binding_json.h"
#include "netpolicy/vault/fields.h"
#include "runtime/base/json_text.h"

namespace atl::vault {
namespace {

using nlohmann::json;

template <typename T>
void SortByName(std::vector<T>& list) {
  std::sort(list.begin(), list.end(), [](const T& a, const T& b) { return a.name < b.name; });
}

// One section of a mutation.
template <typename T>
struct Changes {
  std::vector<std::string> removed;
  std::vector<T> replaced;
  std::vector<T> added;
};

template <typename T, typename F>
Result<std::vector<T>> ParseAll(const json& value, const std::string& where, size_t most, F parse) {
  ATOLL_TRY(CheckList(value, where, most));
  std::vector<T> list;
  for (size_t i = 0; i < value.size(); ++i) {
    ATOLL_ASSIGN(T one, parse(value[i], Element(where, i)));
    list.push_back(std::move(one));
  }
  return list;
}

Result<std::vector<Credential>> ParseCredentials(const json& value, const std::string& where) {
  return ParseAll<Credential>(value, where, kMaxCredentials,
                              [](const json& one, const std::string& at) -> Result<Credential> {
                                ATOLL_TRY(CheckMembers(one, at, {"name", "source"}));
                                return ParseCredential(one, at);
                              });
}

Result<std::vector<Binding>> ParseBindings(const json& value, const std::string& where) {
  return ParseAll<Binding>(value, where, kMaxBindings, ParseBinding);
}

Result<std::vector<std::string>> ParseNames(const json& value, const std::string& where,
                                            size_t most) {
  return ParseAll<std::string>(value, where, most,
                               [](const json& one, const std::string& at) -> Result<std::string> {
                                 ATOLL_ASSIGN(const std::string text, StringOf(one, at));
                                 auto name = NormalName(text);
                                 if (!name) return Fail(std::move(name).error().Wrap(at));
                                 return *std::move(name);
                               });
}

template <typename T, typename F>
Result<Changes<T>> ParseChanges(const json& value, const std::string& where, size_t most, F parse) {
  ATOLL_TRY(CheckMembers(value, where, {"add", "replace", "delete"}));
  Changes<T> changes;
  ATOLL_ASSIGN(changes.removed, ParseNames(Member(value, "delete"), where + ".delete", most));
  ATOLL_ASSIGN(changes.replaced, parse(Member(value, "replace"), where + ".replace"));
  ATOLL_ASSIGN(changes.added, parse(Member(value, "add"), where + ".add"));
  return changes;
}

// Applies a section. `what` names its kind of object in errors.
template <typename T>
Status Apply(Changes<T> changes, const std::string& what, std::vector<T>& list) {
  std::set<std::string> mentioned;
  const auto wrong = [&](const std::string& name, const char* is) {
    return Fail(Code::kInvalidArgument, what + " \"" + name + "\" " + is);
  };
  const auto find = [&](const std::string& name) {
    return std::find_if(list.begin(), list.end(), [&](const T& one) { return one.name == name; });
  };
  for (const std::string& name : changes.removed) {
    if (!mentioned.insert(name).second) return wrong(name, "stands in two operations");
    const auto found = find(name);
    if (found == list.end()) return wrong(name, "does not exist");
    list.erase(found);
  }
  for (T& one : changes.replaced) {
    if (!mentioned.insert(one.name).second) return wrong(one.name, "stands in two operations");
    const auto found = find(one.name);
    if (found == list.end()) return wrong(one.name, "does not exist");
    *found = std::move(one);
  }
  for (T& one : changes.added) {
    if (!mentioned.insert(one.name).second) return wrong(one.name, "stands in two operations");
    if (find(one.name) != list.end()) return wrong(one.name, "already exists");
    list.push_back(std::move(one));
  }
  SortByName(list);
  return {};
}

Status CheckRevision(const json& expected, int64_t revision) {
  if (expected.is_null()) return {};
  if (!expected.is_number_integer()) {
    return Fail(WrongAt("expectedRevision", "use a whole number"));
  }
  if (expected == revision) return {};
  return Fail(Code::kFailedPrecondition, "expectedRevision " + JsonText(expected) +
                                             " does not match current revision " +
                                             std::to_string(revision));
}

}  // namespace

Result<Vault> ParseVault(std::string_view text) {
  ATOLL_ASSIGN(const json value, ParseBounded(text, kMaxVaultJson));
  ATOLL_TRY(CheckMembers(value, "", {"credentials", "bindings"}));
  Vault vault;
  ATOLL_ASSIGN(vault.credentials, ParseCredentials(Member(value, "credentials"), "credentials"));
  ATOLL_ASSIGN(vault.bindings, ParseBindings(Member(value, "bindings"), "bindings"));
  SortByName(vault.credentials);
  SortByName(vault.bindings);
  ATOLL_TRY(Check(vault));
  return vault;
}

Result<Vault> Patch(const Vault& vault, std::string_view text) {
  ATOLL_ASSIGN(const json value, ParseBounded(text, kMaxVaultJson));
  ATOLL_TRY(CheckMembers(value, "", {"expectedRevision", "credentials", "bindings"}));
  ATOLL_TRY(CheckRevision(Member(value, "expectedRevision"), vault.revision));
  ATOLL_ASSIGN(auto credentials,
               ParseChanges<Credential>(Member(value, "credentials"), "credentials",
                                        kMaxCredentials, ParseCredentials));
  ATOLL_ASSIGN(auto bindings, ParseChanges<Binding>(Member(value, "bindings"), "bindings",
                                                    kMaxBindings, ParseBindings));
  Vault next = vault;
  ++next.revision;
  for (Credential& one : credentials.replaced) one.revision = next.revision;
  for (Credential& one : credentials.added) one.revision = next.revision;
  ATOLL_TRY(Apply(std::move(credentials), "credential", next.credentials));
  ATOLL_TRY(Apply(std::move(bindings), "binding", next.bindings));
  ATOLL_TRY(Check(next));
  return next;
}

}  // namespace atl::vault
