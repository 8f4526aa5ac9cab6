// Images of several tenants in one store.
#include "tests/unit/images/image_store_fixture.h"

namespace atl::images {
namespace {

const tenants::Caller kRed{.tenant = "red"};
const tenants::Caller kBlue{.tenant = "blue"};

class ImageTenantTest : public ImageStoreTest {
 protected:
  Result<Image> ImportAs(const tenants::Caller& caller, const FakeImage& image,
                         const std::string& name) {
    image.Fill(runner_, HostArchitecture());
    return MembersAs(caller, name);
  }
  Result<Image> MembersAs(const tenants::Caller& caller, const std::string& name) {
    std::optional<Result<Image>> result;
    store_->Import(caller, Archive(), name, [&](Result<Image> r) { result = std::move(r); });
    loop_.Run();
    EXPECT_TRUE(result);
    return *std::move(result);
  }
  std::string Names(const tenants::Caller& caller) {
    std::string names;
    for (const Image& image : store_->List(caller)) {
      names += ImageKey(image.tenant, image.name) + " ";
    }
    return names;
  }
};

TEST_F(ImageTenantTest, ANameIsTheOwnImageAndElseTheHosts) {
  const std::string host = ImportAs(kHost, {{"base", "host"}, ""}, "python")->digest;
  EXPECT_EQ(store_->Find(kRed, "python")->digest, host);
  const std::string red = ImportAs(kRed, {{"base", "red"}, ""}, "python")->digest;
  ASSERT_NE(host, red);
  EXPECT_EQ(store_->Find(kRed, "python")->digest, red);
  EXPECT_EQ(store_->Find(kBlue, "python")->digest, host);
  EXPECT_EQ(store_->Find(kHost, "python")->digest, host);
  ASSERT_TRUE(ImportAs(kRed, {{"base", "tool"}, ""}, "tool"));
  EXPECT_EQ(store_->Find(kBlue, "tool").error().code(), Code::kNotFound);
  EXPECT_EQ(Names(kRed), "python:latest python:latest@red tool:latest@red ");
  EXPECT_EQ(Names(kBlue), "python:latest ");
  EXPECT_EQ(Names(tenants::Caller::Daemon()), Names(kRed));
  // The same after a restart.
  Reopen();
  EXPECT_EQ(store_->Find(kRed, "python")->digest, red);
  EXPECT_EQ(store_->Find(kRed, "python")->tenant, "red");
  EXPECT_EQ(store_->Find(kBlue, "python")->digest, host);
  EXPECT_EQ(Names(kRed), "python:latest python:latest@red tool:latest@red ");
  // A key is no name.
  EXPECT_EQ(store_->Find(kBlue, "tool:latest@red").error().code(), Code::kInvalidArgument);
}

TEST_F(ImageTenantTest, AHintNamesNoImageOfAnother) {
  ASSERT_TRUE(ImportAs(kRed, {{"base"}, ""}, "very-secret-tool:1"));
  const std::string hint = store_->Find(kBlue, "very-secret-tool:2").error().message();
  EXPECT_EQ(hint.find("very-secret-tool:1"), std::string::npos) << hint;
  EXPECT_NE(store_->Find(kRed, "very-secret-tool:2").error().message().find("very-secret-tool:1"),
            std::string::npos);
}

TEST_F(ImageTenantTest, ChangesTouchTheOwnAlone) {
  const std::string host = ImportAs(kHost, {{"base", "host"}, ""}, "python")->digest;
  ASSERT_TRUE(ImportAs(kBlue, {{"base", "blue"}, ""}, "mine"));
  // Another meaning of the name is a new image of the tenant.
  ASSERT_TRUE(store_->Tag(kBlue, "mine", "python"));
  EXPECT_EQ(store_->Find(kHost, "python")->digest, host);
  EXPECT_EQ(store_->Find(kRed, "python")->digest, host);
  EXPECT_NE(store_->Find(kBlue, "python")->digest, host);
  ASSERT_TRUE(store_->Commit(kBlue, "python", store_->Find(kBlue, "mine")->layers, "{}"));
  EXPECT_EQ(store_->Find(kRed, "python")->digest, host);
  // The own goes first; what is the host's stays.
  ASSERT_TRUE(store_->Remove(kBlue, "python", Unused));
  EXPECT_EQ(store_->Find(kBlue, "python")->digest, host);
  EXPECT_EQ(store_->Remove(kBlue, "python", Unused).error().code(), Code::kPermissionDenied);
  EXPECT_EQ(store_->Remove(kRed, "mine", Unused).error().code(), Code::kNotFound);
  EXPECT_EQ(store_->Remove(kHost, "mine", Unused).error().code(), Code::kNotFound);
  EXPECT_EQ(store_->Tag(kRed, "mine", "x").error().code(), Code::kNotFound);
  EXPECT_TRUE(store_->Find(kBlue, "mine"));
}

// A manifest may name any digest. Without this, a tenant that knows the digest of a layer would get
// the content of another's.
TEST_F(ImageTenantTest, ALayerOfAnotherHasToBeBrought) {
  ASSERT_TRUE(ImportAs(kRed, {{"secret"}, ""}, "red"));
  ASSERT_TRUE(ImportAs(kHost, {{"base"}, ""}, "host"));
  EXPECT_EQ(store_->LayerDigests(kBlue), std::set<std::string>{Sha256Of("base")});
  const FakeImage image{{"base", "secret"}, ""};
  image.Fill(runner_, HostArchitecture());
  runner_.members.erase(FakeImage::Hex("base"));
  runner_.members.erase(FakeImage::Hex("secret"));
  const auto stolen = MembersAs(kBlue, "blue");
  ASSERT_FALSE(stolen);
  const FakeImage unknown{{"base", "nobody has it"}, ""};
  unknown.Fill(runner_, HostArchitecture());
  runner_.members.erase(FakeImage::Hex("base"));
  runner_.members.erase(FakeImage::Hex("nobody has it"));
  const auto missing = MembersAs(kBlue, "blue");
  ASSERT_FALSE(missing);
  const auto without = [](std::string text, const std::string& digest) {
    const size_t at = text.find(digest);
    return at == std::string::npos ? text : text.erase(at, digest.size());
  };
  EXPECT_EQ(without(stolen.error().message(), Sha256Of("secret")),
            without(missing.error().message(), Sha256Of("nobody has it")));
}

TEST_F(ImageTenantTest, AnImportDoesNotTellThatAnotherHasTheLayer) {
  // The runner reports two devices that the layer had.
  const auto import = [&](const tenants::Caller& caller, const std::string& layer) {
    const FakeImage image{{layer}, ""};
    image.Fill(runner_, HostArchitecture());
    runner_.reports[layer].skipped_devices = 2;
    return MembersAs(caller, "x");
  };
  const auto red = import(kRed, "shared");
  ASSERT_TRUE(red);
  EXPECT_EQ(red->left_out.devices, 2U);
  const size_t before = runner_.present.size();
  const auto blue = import(kBlue, "shared");
  ASSERT_TRUE(blue);
  EXPECT_EQ(blue->left_out.devices, 2U) << "as if it were the first";
  EXPECT_EQ(blue->layers, red->layers) << "and is still stored once";
  EXPECT_EQ(runner_.present.size(), before);
  // A layer that one of them removes stays for the other.
  ASSERT_TRUE(store_->Remove(kRed, "x", Unused));
  loop_.Run();
  EXPECT_TRUE(runner_.present.contains(blue->layers.front()));
  Reopen();
  EXPECT_EQ(store_->LayersOf(*store_->Find(kBlue, "x")).size(), 1U);
}

}  // namespace
}  // namespace atl::images
