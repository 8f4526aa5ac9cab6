// Validation of request forms. A refusal has the shape that upstream's clients know: status 422,
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

// A place in a request: {"body", "image", "uri"}, {"body", "entrypoint", 0}.
using Location = std::vector<std::variant<std::string, size_t>>;

struct Problem {
  std::string type;  // "missing", "string_type", …
  Location loc;
  std::string msg;
  std::string input;  // the refused value as JSON, without secrets
  std::string ctx;    // an object as JSON; empty: none
};

class Problems {
 public:
  // Number of problems that a refusal shows. A body of 4 MiB can have a million, and the loop
  // would stand still while it collected them.
  static constexpr size_t kMost = 20;

  // Keeps the problem unless full().
  void Add(Problem problem);
  bool empty() const { return list_.empty(); }
  // True once the refusal has all the problems it shows. A reader of a list then stops.
  bool full() const { return list_.size() >= kMost; }
  http::Response ToResponse() const;

 private:
  std::vector<Problem> list_;
};

// A member of a JSON object with its location, so that each problem names the location.
class Field {
 public:
  Field(const nlohmann::json& value, Location loc, Problems* problems)
      : value_(&value), loc_(std::move(loc)), problems_(problems) {}

  // Returns the member `name`. A member that is absent or null is not present().
  Field At(const std::string& name) const;
  // Returns an element; `index` must be below the size of the list. A null element is not
  // present().
  Field Element(size_t index) const;
  bool present() const;
  const nlohmann::json& value() const { return *value_; }

  // Each getter returns false if the field is not present. If it has another type, the getter adds
  // a problem and returns false.
  bool IsObject() const;
  bool String(std::string* out) const;
  // A string that is not empty.
  bool Word(std::string* out) const;
  bool Bool(bool* out) const;
  // Whole numbers, also written "3600" or 3600.0.
  bool Integer(int64_t* out) const;
  // A list of at least `min` strings.
  bool Strings(size_t min, std::vector<std::string>* out) const;
  // A map of strings. Null values are dropped if `drop_nulls`, else they are problems.
  bool StringMap(bool drop_nulls, std::map<std::string, std::string>* out) const;

  // Like IsObject, but an absent field is a problem too.
  bool IsRequiredObject() const;

  // See Problems::full.
  bool problems_full() const { return problems_->full(); }
  void Missing() const;
  void Complain(std::string type, std::string msg, std::string ctx = {}) const;
  // Adds a problem about several fields together.
  void BreaksRule(const std::string& rule) const;

 private:
  Field(const nlohmann::json* value, Location loc, Problems* problems, const nlohmann::json* parent)
      : value_(value), parent_(parent), loc_(std::move(loc)), problems_(problems) {}

  const nlohmann::json* value_;
  const nlohmann::json* parent_ = nullptr;
  Location loc_;
  Problems* problems_;
};

// Reads a whole number from a query or path parameter. Adds a problem and returns false if `text`
// is no number or not within [min, max].
bool ParseInteger(const std::string& text, const Location& loc, int64_t min, int64_t max,
                  Problems* problems, int64_t* out);

}  // namespace atl::api
