// Credentials and bindings as JSON: the common part of document_json.h and wire_json.h.
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

// Returns the error "WHERE: WHAT" with code kInvalidArgument.
Error WrongAt(std::string_view where, std::string_view what);

// Parses JSON. kInvalidArgument: not JSON, nested too deep, or longer than `most` bytes. The error
// names the position, never the text.
Result<nlohmann::json> ParseBounded(std::string_view text, size_t most);

// Checks that `value` is null, or an object whose members are all in `names`; otherwise
// kInvalidArgument. Here and below, `where` is the path of `value` in the document, empty for the
// whole document.
Status CheckMembers(const nlohmann::json& value, std::string_view where,
                    std::initializer_list<std::string_view> names);
// Returns the member, or null. `value` may be null itself.
const nlohmann::json& Member(const nlohmann::json& value, const char* name);
// Checks that `value` is an array of at most `most` elements. Null counts as empty.
Status CheckList(const nlohmann::json& value, std::string_view where, size_t most);
// Returns a string. Null counts as empty.
Result<std::string> StringOf(const nlohmann::json& value, std::string_view where);
// Returns "where.name", or only the name if `where` is empty.
std::string Below(std::string_view where, std::string_view name);
std::string Element(std::string_view where, size_t index);

// Parses one credential with the members "name" and "source". Its revision keeps its default.
Result<Credential> ParseCredential(const nlohmann::json& value, std::string_view where);
// Parses one binding into its normal form.
Result<Binding> ParseBinding(const nlohmann::json& value, std::string_view where);

// Returns an object with "schemes", "hosts", "methods" and "paths", in this order.
nlohmann::ordered_json MatchToJson(const Match& match);

}  // namespace atl::vault
