// The current problems of this daemon, by subject. `GET /health` and the metrics show them. Each
// component sets and clears its own subject, and there is no second list.
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
  // Sets the problem of a subject; an empty text clears it. The text says what is wrong and what to
  // do. It must not contain paths or secrets, because anybody who can reach the port may read it.
  // Changes are logged; setting the same text again is free.
  void Set(std::string_view subject, std::string trouble);
  void Clear(std::string_view subject) { Set(subject, {}); }

  using Troubles = std::map<std::string, std::string, std::less<>>;
  const Troubles& troubles() const { return troubles_; }

 private:
  Troubles troubles_;
};

}  // namespace atl
