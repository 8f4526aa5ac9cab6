// What is wrong with the form of a request, in the shape that upstream's clients know: status 422,
// {"detail": [{type, loc, msg, input, ctx?}, …]}, and beside it the {code, message} of every other
// refusal.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <variant>
#include <vector>

#include "runtime/http/message.h"

namespace atl::api {

// Where in a request: {"body", "image", "uri"}, {"body", "entrypoint", 0}.
using Location = std::vector<std::variant<std::string, size_t>>;

struct Problem {
  std::string type;  // "missing", "string_type", …
  Location loc;
  std::string msg;
  std::string input;  // what was there, as JSON, without the sender's secrets
  std::string ctx;    // an object as JSON; empty: none
};

class Problems {
 public:
  void Add(Problem problem);
  bool empty() const { return list_.empty(); }
  http::Response ToResponse() const;

 private:
  std::vector<Problem> list_;
};

// A member of an object with where it stands, so that each complaint says where.
class Field {
 public:
  Field(const nlohmann::json& value, Location loc, Problems* problems)
      : value_(&value), loc_(std::move(loc)), problems_(problems) {}

  // The member `name`: absent and null are both "not there".
  Field At(const std::string& name) const;
  // The element of a list that has that many; null is "not there", as above.
  Field Element(size_t index) const;
  bool present() const;
  const nlohmann::json& value() const { return *value_; }

  // Each of these complains if the field is there and has another type, and then returns nothing.
  bool IsObject() const;
  bool String(std::string* out) const;
  // One that is not empty.
  bool Word(std::string* out) const;
  bool Bool(bool* out) const;
  // Whole numbers, also as "3600" and 3600.0.
  bool Integer(int64_t* out) const;
  // A list of at least `min` strings.
  bool Strings(size_t min, std::vector<std::string>* out) const;
  // A map of strings; null values are dropped if `drop_nulls`, else complained about.
  bool StringMap(bool drop_nulls, std::map<std::string, std::string>* out) const;

  // An object, and complains if there is nothing, too.
  bool IsRequiredObject() const;

  void Missing() const;
  void Complain(std::string type, std::string msg, std::string ctx = {}) const;
  // A rule about several fields.
  void BreaksRule(const std::string& rule) const;

 private:
  Field(const nlohmann::json* value, Location loc, Problems* problems, const nlohmann::json* parent)
      : value_(value), parent_(parent), loc_(std::move(loc)), problems_(problems) {}

  const nlohmann::json* value_;
  const nlohmann::json* parent_ = nullptr;
  Location loc_;
  Problems* problems_;
};

// A whole number of a query or path parameter; complains and returns false if it is none, or not
// within [min, max].
bool ParseInteger(const std::string& text, const Location& loc, int64_t min, int64_t max,
                  Problems* problems, int64_t* out);

}  // namespace atl::api
