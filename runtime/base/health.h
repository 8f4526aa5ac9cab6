// What is wrong with this daemon right now, by subject. `GET /health` and the metrics show it;
// whoever watches over a thing sets and clears its subject, and nobody keeps a second list.
//
// Thread rule: on the loop.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace atl {

class Health {
 public:
  // `trouble` says what is wrong and what to do, for people, without paths or secrets: anybody who
  // reaches the port may read it. Empty: the subject is well again. Logged when it begins, changes
  // and ends; saying the same again is free.
  void Set(std::string_view subject, std::string trouble);
  void Clear(std::string_view subject) { Set(subject, {}); }

  using Troubles = std::map<std::string, std::string, std::less<>>;
  const Troubles& troubles() const { return troubles_; }

 private:
  Troubles troubles_;
};

}  // namespace atl
