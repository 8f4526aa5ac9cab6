// How much the audit log tells of each action.
//
// Thread rule: a plain object.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"

namespace atl::audit {

//   none  no line
//   meta  who, which object, how it ended
//   argv  also the program, the number of arguments and an HMAC of the command or path, so that
//         equal ones can be found, and the words of a command cannot be guessed
//   full  also the command or path as text; values of words that look like secrets are hidden
enum class Level : uint8_t { kNone, kMeta, kArgv, kFull };

class Levels {
 public:
  // `rules`: "ACTION=LEVEL". ACTION is a word of the log ("exec.command"), a group ("exec.*"), or
  // "*". The last rule that matches counts. Without one: kArgv for exec.*, else kMeta.
  static Result<Levels> Parse(const std::vector<std::string>& rules);

  Level For(std::string_view action) const;

 private:
  struct Rule {
    std::string action;  // the whole word; of a group the part before the star
    bool group = false;
    Level level = Level::kMeta;
  };
  std::vector<Rule> rules_;
};

}  // namespace atl::audit
