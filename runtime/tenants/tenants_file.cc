#include "runtime/tenants/tenants_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <set>
#include <utility>

#include "cgroup/limits_text.h"
#include "images/allowed.h"
#include "images/image_name.h"
#include "runtime/base/duration.h"
#include "runtime/base/plain_file.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/base/sha256.h"
#include "runtime/base/sys.h"
#include "runtime/http/base_url.h"
#include "runtime/tenants/quota_text.h"

// The packaged library is not used, because it is built with exceptions.
#define TOML_EXCEPTIONS 0
#undef TOML_HEADER_ONLY
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

namespace atl::tenants {
namespace {

constexpr size_t kMaxFile = 4 << 20;
constexpr size_t kMaxName = 63;
constexpr size_t kMostOfList = 256;
constexpr size_t kMostOfText = 512;
constexpr size_t kMostOidcRules = 256;
// A shorter key can be guessed. Upstream takes any that is not blank, so it is only warned of.
constexpr size_t kShortKey = 16;

std::string LineOf(const std::string& file, const toml::node& node) {
  return file + " line " + std::to_string(node.source().begin.line);
}

// One table of the file. Every key must be taken by name, so that none is ignored.
class Reader {
 public:
  Reader(const std::string& file, std::string path, const toml::table& table)
      : file_(file), path_(std::move(path)), table_(table) {}

  // Calls `read` with the node of the key, if the table has it.
  template <typename Read>
  Status Take(std::string_view key, Read read) {
    taken_.insert(std::string(key));
    const toml::node* node = table_.get(key);
    if (node == nullptr) return {};
    const Status done = read(*node);
    if (done) return {};
    // An error from a nested table names its line already.
    if (done.error().message().starts_with(file_ + " line ")) return done;
    return Fail(Code::kInvalidArgument, LineOf(file_, *node) + ": " + path_ + std::string(key) +
                                            " " + done.error().message());
  }

  // Call last.
  Status RefuseOthers() const {
    for (const auto& [key, node] : table_) {
      if (taken_.contains(std::string(key.str()))) continue;
      std::string known;
      for (const std::string& one : taken_) known.append(known.empty() ? "" : ", ").append(one);
      return Fail(Code::kInvalidArgument, LineOf(file_, node) + ": " + path_ +
                                              std::string(key.str()) +
                                              " is not known here; the keys are " + known);
    }
    return {};
  }

  std::string PathOf(std::string_view key) const { return path_ + std::string(key); }
  std::string Where() const { return LineOf(file_, table_); }

 private:
  const std::string& file_;
  std::string path_;  // "tenants.max."; empty at the top
  const toml::table& table_;
  std::set<std::string> taken_;
};

Status ReadText(const toml::node& node, std::string* text) {
  const auto value = node.value_exact<std::string>();
  if (!value) return Fail(Code::kInvalidArgument, "must be a string in quotes");
  if (value->size() > kMostOfText) return Fail(Code::kInvalidArgument, "is too long");
  *text = *value;
  return {};
}

Status ReadName(const toml::node& node, std::string* name) {
  ATOLL_TRY(ReadText(node, name));
  if (IsTenantName(*name)) return {};
  return Fail(Code::kInvalidArgument,
              "'" + *name + "': use 1 to 63 of a-z, 0-9 and '-', not '-' first");
}

Status ReadBool(const toml::node& node, bool* truth) {
  const auto value = node.value_exact<bool>();
  if (!value) return Fail(Code::kInvalidArgument, "must be true or false");
  *truth = *value;
  return {};
}

Status ReadList(const toml::node& node, std::vector<std::string>* list) {
  const toml::array* array = node.as_array();
  if (array == nullptr || array->size() > kMostOfList) {
    return Fail(Code::kInvalidArgument,
                "must be a list of at most " + std::to_string(kMostOfList) + " strings");
  }
  for (const toml::node& item : *array) ATOLL_TRY(ReadText(item, &list->emplace_back()));
  return {};
}

// Returns true for "/a/b". The paths of requests are compared with it as text.
bool IsPlainPath(const std::string& path) {
  if (!path.starts_with('/')) return false;
  for (size_t begin = 1; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string component = path.substr(begin, end - begin);
    if (component.empty() || component == "." || component == "..") return false;
    begin = end + 1;
  }
  return true;
}

Status ReadPaths(const toml::node& node, std::vector<std::string>* paths) {
  ATOLL_TRY(ReadList(node, paths));
  for (const std::string& path : *paths) {
    if (IsPlainPath(path)) continue;
    return Fail(Code::kInvalidArgument, "'" + path +
                                            "': use an absolute path other than /, without '.', "
                                            "'..' and a slash at its end");
  }
  return {};
}

Status ReadTexts(const toml::node& node, std::map<std::string, std::string>* texts) {
  const toml::table* table = node.as_table();
  if (table == nullptr || table->size() > kMostOfList) {
    return Fail(Code::kInvalidArgument, "must be a table of strings");
  }
  for (const auto& [key, value] : *table) {
    ATOLL_TRY(ReadText(value, &(*texts)[std::string(key.str())]));
  }
  return {};
}

// Returns a quota's value as SetQuota reads it.
Result<std::string> QuantityOf(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return *text;
  if (const auto number = node.value_exact<int64_t>()) return std::to_string(*number);
  if (const auto number = node.value_exact<double>()) {
    char digits[64];
    return std::string(digits, std::to_chars(digits, digits + sizeof digits, *number).ptr);
  }
  return Fail(Code::kInvalidArgument, "must be a number, or a string in quotes");
}

Status ReadQuota(const std::string& file, const toml::node& node, Quota* quota) {
  const toml::table* table = node.as_table();
  if (table == nullptr) return Fail(Code::kInvalidArgument, "must be a table");
  Reader reader(file, "tenants.max.", *table);
  for (const QuotaField& field : QuotaFields()) {
    ATOLL_TRY(reader.Take(field.name, [&](const toml::node& value) -> Status {
      ATOLL_ASSIGN(const std::string text, QuantityOf(value));
      return SetQuota(field.name, text, quota);
    }));
  }
  return reader.RefuseOthers();
}

Status ReadHistory(const std::string& file, const toml::node& node, HistoryLimits* limits) {
  const toml::table* table = node.as_table();
  if (table == nullptr) return Fail(Code::kInvalidArgument, "must be a table");
  Reader reader(file, "tenants.history.", *table);
  ATOLL_TRY(reader.Take("keep", [&](const toml::node& value) -> Status {
    ATOLL_ASSIGN(const std::string text, QuantityOf(value));
    limits->keep_seconds = ParseDuration(text);
    if (limits->keep_seconds) return {};
    return Fail(Code::kInvalidArgument, "'" + text + "': use a duration, such as \"7d\" or \"0\"");
  }));
  ATOLL_TRY(reader.Take("max_bytes", [&](const toml::node& value) -> Status {
    ATOLL_ASSIGN(const std::string text, QuantityOf(value));
    ATOLL_ASSIGN(limits->max_bytes, cgroup::ParseBytes(text));
    return {};
  }));
  return reader.RefuseOthers();
}

Status ReadRole(const toml::node& node, Role* role) {
  std::string word;
  ATOLL_TRY(ReadText(node, &word));
  const auto parsed = ParseRole(word);
  if (!parsed) {
    return Fail(Code::kInvalidArgument,
                "'" + word + "': use viewer, developer, operator, auditor or admin");
  }
  *role = *parsed;
  return {};
}

// Adds the SHA-256 of each key. `seen`: those of the whole file.
Status ReadKeys(const toml::node& node, const std::string& where, std::set<std::string>* seen,
                Tenant* tenant, std::vector<std::string>* warnings) {
  std::vector<std::string> keys;
  ATOLL_TRY(ReadList(node, &keys));
  bool is_short = false;
  for (const std::string& key : keys) {
    const bool visible =
        std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c <= '~'; });
    if (key.empty() || !visible) {
      return Fail(Code::kInvalidArgument,
                  "has a key that is blank, or that no header can carry: use visible ASCII");
    }
    std::string hash = HexEncode(Sha256(key));
    if (!seen->insert(hash).second) {
      return Fail(Code::kInvalidArgument, "has a key that occurs twice in this file");
    }
    is_short = is_short || key.size() < kShortKey;
    tenant->key_hashes.push_back(std::move(hash));
  }
  if (!keys.empty()) {
    warnings->push_back(where + ": tenants.api_keys holds " + std::to_string(keys.size()) +
                        " keys without expiry, as text; keys of 'atoll key add' expire and are "
                        "not stored" +
                        (is_short ? "; some have less than 16 characters" : ""));
  }
  return {};
}

Status ReadRules(const toml::node& node, std::vector<std::string>* rules) {
  std::vector<std::string> texts;
  ATOLL_TRY(ReadList(node, &texts));
  for (const std::string& text : texts) {
    ATOLL_ASSIGN(rules->emplace_back(), images::CheckAllowedRule(text));
  }
  return {};
}

Status ReadPresent(const toml::node& node, std::string* text) {
  ATOLL_TRY(ReadText(node, text));
  if (!text->empty()) return {};
  return Fail(Code::kInvalidArgument, "must not be empty");
}

Status ReadIssuer(const toml::node& node, std::string* issuer) {
  ATOLL_TRY(ReadText(node, issuer));
  const bool visible =
      std::all_of(issuer->begin(), issuer->end(), [](char c) { return c > ' ' && c <= '~'; });
  if (visible && (issuer->starts_with("https://") || issuer->starts_with("http://"))) return {};
  return Fail(Code::kInvalidArgument,
              "must be the URL that tokens have as 'iss', byte by byte, such as "
              "https://idp.example");
}

Status ReadKeysAddress(const toml::node& node, std::string* address) {
  ATOLL_TRY(ReadText(node, address));
  if (address->starts_with("file://") && IsPlainPath(address->substr(7))) return {};
  if (address->starts_with("https://") && http::ParseBaseUrl(*address)) return {};
  return Fail(Code::kInvalidArgument,
              "must be the address of the issuer's keys: https://HOST/PATH, or file:///PATH");
}

Status ReadWhen(const toml::node& node, std::map<std::string, std::string>* when) {
  ATOLL_TRY(ReadTexts(node, when));
  if (!when->empty()) return {};
  return Fail(Code::kInvalidArgument,
              "is empty: name a claim, because the issuer may have users who are not yours");
}

// Calls `read` with each table of an array of tables.
template <typename Read>
Status EachTable(Reader* reader, std::string_view key, size_t most, Read read) {
  return reader->Take(key, [&](const toml::node& node) -> Status {
    const toml::array* array = node.as_array();
    const std::string wanted = "must be [[" + reader->PathOf(key) + "]]";
    if (array == nullptr) return Fail(Code::kInvalidArgument, wanted);
    if (array->size() > most) {
      return Fail(Code::kInvalidArgument, "has more than " + std::to_string(most) + " entries");
    }
    for (const toml::node& item : *array) {
      if (!item.is_table()) return Fail(Code::kInvalidArgument, wanted);
      ATOLL_TRY(read(*item.as_table()));
    }
    return {};
  });
}

Result<OidcRule> ReadOidcRule(const std::string& file, const toml::table& table) {
  OidcRule rule;
  Reader reader(file, "tenants.oidc.", table);
  ATOLL_TRY(
      reader.Take("issuer", [&](const auto& node) { return ReadIssuer(node, &rule.issuer); }));
  ATOLL_TRY(
      reader.Take("audience", [&](const auto& node) { return ReadPresent(node, &rule.audience); }));
  ATOLL_TRY(
      reader.Take("jwks", [&](const auto& node) { return ReadKeysAddress(node, &rule.jwks); }));
  ATOLL_TRY(reader.Take("when", [&](const auto& node) { return ReadWhen(node, &rule.when); }));
  ATOLL_TRY(reader.Take("role", [&](const auto& node) { return ReadRole(node, &rule.role); }));
  ATOLL_TRY(reader.RefuseOthers());
  for (const char* key : {"issuer", "audience", "jwks", "when", "role"}) {
    if (table.contains(key)) continue;
    return Fail(Code::kInvalidArgument,
                reader.Where() + ": tenants.oidc." + std::string(key) + " is missing");
  }
  return rule;
}

Result<Tenant> ReadTenant(const std::string& file, const toml::table& table,
                          std::set<std::string>* keys, std::vector<std::string>* warnings) {
  Tenant tenant;
  Reader reader(file, "tenants.", table);
  ATOLL_TRY(reader.Take("name", [&](const auto& node) { return ReadName(node, &tenant.name); }));
  ATOLL_TRY(reader.Take("namespace",
                        [&](const auto& node) { return ReadName(node, &tenant.name_space); }));
  ATOLL_TRY(reader.Take("api_keys", [&](const auto& node) {
    return ReadKeys(node, LineOf(file, node), keys, &tenant, warnings);
  }));
  ATOLL_TRY(reader.Take("weight", [&](const auto& node) -> Status {
    const auto weight = node.template value_exact<int64_t>();
    if (!weight || *weight < 1 || *weight > 100) {
      return Fail(Code::kInvalidArgument, "must be a whole number from 1 to 100");
    }
    tenant.weight = static_cast<uint32_t>(*weight);
    return {};
  }));
  ATOLL_TRY(
      reader.Take("max", [&](const auto& node) { return ReadQuota(file, node, &tenant.max); }));
  ATOLL_TRY(reader.Take(
      "history", [&](const auto& node) { return ReadHistory(file, node, &tenant.history); }));
  ATOLL_TRY(
      reader.Take("images", [&](const auto& node) { return ReadRules(node, &tenant.images); }));
  ATOLL_TRY(reader.Take("egress_ceiling",
                        [&](const auto& node) { return ReadList(node, &tenant.egress_ceiling); }));
  ATOLL_TRY(reader.Take("object_stores",
                        [&](const auto& node) { return ReadList(node, &tenant.object_stores); }));
  ATOLL_TRY(reader.Take("host_paths",
                        [&](const auto& node) { return ReadPaths(node, &tenant.host_paths); }));
  ATOLL_TRY(EachTable(&reader, "oidc", kMostOidcRules, [&](const toml::table& one) -> Status {
    ATOLL_ASSIGN(tenant.oidc.emplace_back(), ReadOidcRule(file, one));
    return {};
  }));
  ATOLL_TRY(reader.Take("policy_locked",
                        [&](const auto& node) { return ReadBool(node, &tenant.policy_locked); }));
  ATOLL_TRY(reader.Take("self_service",
                        [&](const auto& node) { return ReadBool(node, &tenant.self_service); }));
  ATOLL_TRY(
      reader.Take("labels", [&](const auto& node) { return ReadTexts(node, &tenant.labels); }));
  ATOLL_TRY(reader.RefuseOthers());
  if (tenant.name.empty()) {
    return Fail(Code::kInvalidArgument, reader.Where() + ": tenants.name is missing");
  }
  if (tenant.name_space.empty()) tenant.name_space = tenant.name;
  return tenant;
}

Result<TenantsTest> ReadTest(const std::string& file, const toml::table& table) {
  TenantsTest test;
  Reader reader(file, "tests.", table);
  test.where = reader.Where();
  ATOLL_TRY(reader.Take("tenant", [&](const auto& node) { return ReadText(node, &test.tenant); }));
  ATOLL_TRY(reader.Take("role", [&](const auto& node) { return ReadRole(node, &test.role); }));
  ATOLL_TRY(reader.Take("accept", [&](const auto& node) { return ReadList(node, &test.accept); }));
  ATOLL_TRY(reader.Take("deny", [&](const auto& node) { return ReadList(node, &test.deny); }));
  ATOLL_TRY(reader.RefuseOthers());
  return test;
}

constexpr std::string_view kImageWord = "image ";

// Returns whether the tenant and the role may do what a line of a test says.
Result<bool> May(const TenantsTest& test, const Tenant& tenant, const std::string& what,
                 const TenantsOracle& oracle) {
  if (!what.starts_with(kImageWord)) return oracle.may_use_route(test.role, what);
  const auto name = images::NormaliseImageName(what.substr(kImageWord.size()));
  if (!name) return Fail(Error(name.error()));
  return images::CheckAllowed(tenant.images, *name, "").has_value();
}

}  // namespace

bool IsTenantName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxName && name.front() != '-' &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string_view::npos;
}

Result<TenantsFile> ParseTenants(std::string_view text, const std::string& name) {
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    return Fail(Code::kInvalidArgument, name + " line " +
                                            std::to_string(parsed.error().source().begin.line) +
                                            ": " + std::string(parsed.error().description()));
  }
  TenantsFile file;
  std::set<std::string> keys, names, spaces;
  std::map<std::string, std::string> issuers;  // → the address of its keys
  Reader top(name, "", parsed.table());
  ATOLL_TRY(EachTable(&top, "tenants", kMostTenants, [&](const toml::table& table) -> Status {
    ATOLL_ASSIGN(Tenant tenant, ReadTenant(name, table, &keys, &file.warnings));
    if (!names.insert(tenant.name).second || !spaces.insert(tenant.name_space).second) {
      return Fail(Code::kInvalidArgument, LineOf(name, table) + ": tenants.name or namespace '" +
                                              tenant.name + "' occurs twice");
    }
    for (const OidcRule& rule : tenant.oidc) {
      if (issuers.try_emplace(rule.issuer, rule.jwks).first->second == rule.jwks) continue;
      return Fail(Code::kInvalidArgument, LineOf(name, table) + ": tenants.oidc.jwks of issuer '" +
                                              rule.issuer + "' differs from that of a rule above");
    }
    file.tenants.push_back(std::move(tenant));
    return {};
  }));
  ATOLL_TRY(EachTable(&top, "tests", kMostTenants, [&](const toml::table& table) -> Status {
    ATOLL_ASSIGN(file.tests.emplace_back(), ReadTest(name, table));
    return {};
  }));
  ATOLL_TRY(top.RefuseOthers());
  return file;
}

Status RunTests(const TenantsFile& file, const TenantsOracle& oracle) {
  for (const TenantsTest& test : file.tests) {
    const auto tenant =
        std::find_if(file.tenants.begin(), file.tenants.end(),
                     [&test](const Tenant& one) { return one.name == test.tenant; });
    if (tenant == file.tenants.end()) {
      return Fail(Code::kFailedPrecondition,
                  test.where + ": tests.tenant '" + test.tenant + "' is not in this file");
    }
    for (const bool wanted : {true, false}) {
      for (const std::string& what : wanted ? test.accept : test.deny) {
        const auto may = May(test, *tenant, what, oracle);
        if (may && *may == wanted) continue;
        return Fail(Code::kFailedPrecondition,
                    test.where + ": the test of " + (wanted ? "accept" : "deny") + " '" + what +
                        "' fails: " +
                        (may ? std::string(RoleName(test.role)) + " of " + test.tenant +
                                   (wanted ? " may not do it" : " may do it")
                             : may.error().message()));
      }
    }
  }
  return {};
}

Result<TenantsFile> LoadTenants(const std::string& path, const TenantsOracle& oracle) {
  auto opened = sys::Open(path, O_RDONLY | O_NONBLOCK);
  if (!opened) {
    const bool denied = opened.error().error_number() == EACCES;
    return Fail(std::move(opened).error().Wrap(
        denied ? "read the tenants (the file must be readable by the group of runtime.user: chgrp "
                 "GROUP " +
                     path + " && chmod 0640 " + path + ")"
               : "read the tenants"));
  }
  struct stat info {};
  if (::fstat(opened->get(), &info) != 0) return FailSys("fstat " + path);
  if (!S_ISREG(info.st_mode)) {
    return Fail(Code::kFailedPrecondition, path + " is not a regular file");
  }
  ATOLL_TRY(CheckWriters(path, info, {0, ::geteuid()}));
  ATOLL_ASSIGN(const std::string text, sys::ReadAll(opened->get(), kMaxFile));
  ATOLL_ASSIGN(TenantsFile file, ParseTenants(text, path));
  ATOLL_TRY(RunTests(file, oracle));
  const bool has_keys = std::any_of(file.tenants.begin(), file.tenants.end(),
                                    [](const Tenant& one) { return !one.key_hashes.empty(); });
  if ((info.st_mode & 0004) != 0 && has_keys) {
    file.warnings.push_back(
        path + " holds API keys, and every user of this host can read it: " + "chmod o-r " + path);
  }
  return file;
}

}  // namespace atl::tenants
