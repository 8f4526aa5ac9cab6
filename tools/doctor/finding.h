// One line of the doctor's report.
#pragma once

#include <string>

namespace atl::doctor {

enum class Grade {
  kOk,
  kWarning,  // Atoll works, but not fully
  kMissing,  // sandboxes do not run, or not safely
};

struct Finding {
  std::string name;
  Grade grade = Grade::kOk;
  std::string text;  // the state that the check found
  std::string fix;   // how to fix it; empty if kOk
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
