#include "images/image_hint.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "runtime/base/nearest.h"

namespace atl::images {
namespace {

// Recipes for images that are widely known by these names, in any registry.
constexpr struct {
  std::string_view repository;
  std::string_view tag;  // prefix of the tag
  std::string_view recipe;
} kRecipes[] = {
    {"agent-infra/sandbox", "", "aio"},
    {"openclaw", "", "openclaw"},
    {"agents", "", "agents"},
    {"aio", "", "aio"},
    {"base", "", "base"},
    {"chrome", "", "chrome"},
    {"chromium", "", "chrome"},
    {"claude", "", "claude"},
    {"code-interpreter", "", "code-interpreter"},
    {"code-server", "", "vscode"},
    {"desktop", "", "desktop"},
    {"kernels", "", "kernels"},
    {"playwright", "", "playwright"},
    {"plots", "", "plots"},
    {"runtimes", "", "runtimes"},
    {"ssh", "", "ssh"},
    {"vscode", "", "vscode"},
    {"alpine", "", "busybox"},
    {"busybox", "", "busybox"},
    {"debian", "", "base"},
    {"node", "18", "node"},
    {"node", "", "node24"},
    {"node24", "", "node24"},
    {"python", "", "python"},
    {"ubuntu", "", "base"},
};

// The name without its tag, and the tag.
std::string RepositoryOf(const std::string& name) {
  return name.substr(0, name.rfind(':'));
}
std::string TagOf(const std::string& name) {
  return name.substr(name.rfind(':') + 1);
}
// Returns the last part of a repository: "python" for "registry.example/team/python".
std::string BaseOf(const std::string& repository) {
  return repository.substr(repository.rfind('/') + 1);
}

std::string NearestImage(const std::string& given, const std::vector<std::string>& known) {
  // Prefers an image that differs only in its tag, with the most similar tag. Otherwise picks one
  // with another registry or a similar spelling.
  const std::string wanted = RepositoryOf(given);
  std::vector<std::string> same;
  std::vector<std::string> bases;
  for (const std::string& name : known) {
    if (RepositoryOf(name) == wanted) same.push_back(name);
    bases.push_back(BaseOf(RepositoryOf(name)));
  }
  if (!same.empty()) {
    const std::string nearest = Nearest(given, same);
    return nearest.empty() ? same.front() : nearest;
  }
  if (std::string nearest = Nearest(given, known); !nearest.empty()) return nearest;
  const std::string base = BaseOf(wanted);
  const auto exact = std::find(bases.begin(), bases.end(), base);
  const auto at =
      exact != bases.end() ? exact : std::find(bases.begin(), bases.end(), Nearest(base, bases));
  return at == bases.end() ? "" : known[static_cast<size_t>(at - bases.begin())];
}

std::string_view RecipeFor(const std::string& name) {
  const std::string repository = "/" + RepositoryOf(name);
  const std::string tag = TagOf(name);
  const auto found =
      std::find_if(std::begin(kRecipes), std::end(kRecipes), [&](const auto& recipe) {
        return repository.ends_with("/" + std::string(recipe.repository)) &&
               tag.starts_with(recipe.tag);
      });
  return found == std::end(kRecipes) ? std::string_view() : found->recipe;
}

}  // namespace

std::string HintForImage(const std::string& name, const std::vector<std::string>& known) {
  std::string hint;
  if (const std::string nearest = NearestImage(name, known); !nearest.empty()) {
    hint += "; did you mean '" + nearest + "'? To give it this name: atoll image tag " + nearest +
            " " + name;
  }
  if (const std::string_view recipe = RecipeFor(name); !recipe.empty()) {
    hint += "; to make an image of this kind: atoll image build " + std::string(recipe);
  }
  return hint + "; to fetch it from a registry: atoll image pull " + name +
         ", or images.pull in the daemon's configuration; to import an archive: atoll image import "
         "FILE --name " +
         name;
}

}  // namespace atl::images
