// Credentials and bindings as JSON; what document_json.h and wire_json.h have in common.
//
// Thread rule: pure functions.
#pragma once

#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "netpolicy/vault/document.h"
#include "netpolicy/vault/document_json.h"
#include "runtime/base/result.h"

namespace atl::vault {

// `where: what`, of code kInvalidArgument.
Error WrongAt(std::string_view where, std::string_view what);

// kInvalidArgument, naming the place and not the text: not JSON, nested too deep, or longer than
// `most` bytes.
Result<nlohmann::json> ParseBounded(std::string_view text, size_t most);

// kInvalidArgument unless `value` is null or an object whose members are all among `names`.
// `where`, here and below, is the place of `value` in the document; empty: the whole of it.
Status CheckMembers(const nlohmann::json& value, std::string_view where,
                    std::initializer_list<std::string_view> names);
// The member, or null: also where `value` itself is null.
const nlohmann::json& Member(const nlohmann::json& value, const char* name);
// A list, or null, which has no elements.
Status CheckList(const nlohmann::json& value, std::string_view where, size_t most);
// A string; empty for null.
Result<std::string> StringOf(const nlohmann::json& value, std::string_view where);
// "where.name"; only the name if `where` is empty.
std::string Below(std::string_view where, std::string_view name);
std::string Element(std::string_view where, size_t index);

// One credential, with the members "name" and "source". The revision is left as it is by default.
Result<Credential> ParseCredential(const nlohmann::json& value, std::string_view where);
// One binding, in its normal form.
Result<Binding> ParseBinding(const nlohmann::json& value, std::string_view where);

// With "schemes", "hosts", "methods" and "paths", in this order.
nlohmann::ordered_json MatchToJson(const Match& match);

}  // namespace atl::vault
