// One line of the doctor's report.
#pragma once

#include <string>

namespace atl::doctor {

enum class Grade {
  kOk,
  kWarning,  // works, with less than it could
  kMissing,  // sandboxes will not run, or not safely
};

struct Finding {
  std::string name;
  Grade grade = Grade::kOk;
  std::string text;  // what was found
  std::string fix;   // what to do about it; empty if kOk
};

inline Finding Ok(std::string name, std::string text) {
  return {std::move(name), Grade::kOk, std::move(text), ""};
}
inline Finding Warning(std::string name, std::string text, std::string fix) {
  return {std::move(name), Grade::kWarning, std::move(text), std::move(fix)};
}
inline Finding Missing(std::string name, std::string text, std::string fix) {
  return {std::move(name), Grade::kMissing, std::move(text), std::move(fix)};
}

}  // namespace atl::doctor
