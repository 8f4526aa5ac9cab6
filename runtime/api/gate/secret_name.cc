#include "runtime/api/gate/secret_name.h"

#include <string>

namespace atl::api {

bool IsSecretName(std::string_view name) {
  std::string upper(name);
  for (char& c : upper) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  for (const char* word : {"SECRET", "TOKEN", "PASSWORD", "KEY"}) {
    if (upper.find(word) != std::string::npos) return true;
  }
  return false;
}

}  // namespace atl::api
