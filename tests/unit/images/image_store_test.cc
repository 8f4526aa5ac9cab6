#include "images/image_store.h"

#include <gtest/gtest.h>

#include "tests/unit/images/image_store_fixture.h"

namespace atl::images {
namespace {

TEST_F(ImageStoreTest, ImportsAndRemembers) {
  const FakeImage image{{"base", "middle", "top"}, "python:3.11", R"({"Env":["A=b"],"User":"u"})"};
  auto imported = Import(image, "");
  ASSERT_TRUE(imported) << imported.error().message();
  EXPECT_EQ(imported->name, "python:3.11");
  EXPECT_EQ(imported->layers, (std::vector<wire::LayerId>{3, 2, 1})) << "topmost first";
  EXPECT_EQ(imported->size_bytes, 4U + 6U + 3U);
  EXPECT_EQ(runner_.published, (std::set<wire::LayerId>{1, 2, 3}));
  Reopen();
  auto found = store_->Find(kHost, "docker.io/library/python:3.11");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->layers, imported->layers);
  EXPECT_EQ(found->digest, imported->digest);
  EXPECT_EQ(found->config.env, std::vector<std::string>{"A=b"});
  EXPECT_EQ(found->config.user, "u");
  EXPECT_EQ(store_->Find(kHost, "python").error().code(), Code::kNotFound);
}

TEST_F(ImageStoreTest, ASharedLayerIsUnpackedOnce) {
  ASSERT_TRUE(Import({{"base", "a"}, ""}, "a"));
  ASSERT_TRUE(Import({{"base", "b"}, ""}, "b"));
  EXPECT_EQ(runner_.extracted.size(), 3U);
  EXPECT_EQ(store_->Find(kHost, "a")->layers.back(), store_->Find(kHost, "b")->layers.back());
  // The layer is removed when no image uses it any more.
  ASSERT_TRUE(store_->Remove(kHost, "a", Unused));
  loop_.Run();
  EXPECT_EQ(runner_.present.size(), 2U);
  ASSERT_TRUE(store_->Remove(kHost, "b", Unused));
  loop_.Run();
  EXPECT_TRUE(runner_.present.empty());
  EXPECT_FALSE(store_->Remove(kHost, "b", Unused));
}

TEST_F(ImageStoreTest, LayersOfRunningSandboxesStay) {
  auto image = Import({{"base", "a"}, ""}, "a");
  const wire::LayerId held = image->layers[0];
  ASSERT_TRUE(store_->Remove(kHost, "a", [&](wire::LayerId id) { return id == held; }));
  loop_.Run();
  EXPECT_EQ(runner_.present, std::set<wire::LayerId>{held});
  Reopen();
  EXPECT_EQ(runner_.present, std::set<wire::LayerId>{held}) << "a restart must not take it away";
  store_->CollectLayers(Unused);
  loop_.Run();
  EXPECT_TRUE(runner_.present.empty());
}

TEST_F(ImageStoreTest, WhatCouldNotBeRemovedIsTriedAgain) {
  const auto layer = store_->ReserveLayer();
  ASSERT_TRUE(layer);
  runner_.present.insert(*layer);
  runner_.away = true;
  store_->DropLayer(*layer);
  loop_.Run();
  runner_.away = false;
  EXPECT_EQ(runner_.present, std::set<wire::LayerId>{*layer});
  store_->CollectLayers(Unused);
  loop_.Run();
  EXPECT_TRUE(runner_.present.empty());
}

TEST_F(ImageStoreTest, LayersOfSandboxesAreToldFromImages) {
  const auto image = Import({{"base"}, ""}, "a");
  const auto layer = store_->ReserveLayer();
  ASSERT_TRUE(layer);
  EXPECT_EQ(store_->WrittenBytes(), 0U);
  ASSERT_TRUE(store_->KeepLayer({.id = *layer, .blob_digest = "fork:x", .size_bytes = 5000}));
  for (int start = 0; start < 2; ++start) {
    EXPECT_EQ(store_->WrittenBytes(), 5000U);
    EXPECT_TRUE(store_->IsWritten(*layer));
    EXPECT_FALSE(store_->IsWritten(image->layers.front()));
    Reopen();
  }
}

TEST_F(ImageStoreTest, ACommitIsAnImageOfLayersThatAreHere) {
  const auto below = Import({{"base"}, ""}, "a");
  const auto written = store_->ReserveLayer();
  ASSERT_TRUE(store_->KeepLayer({.id = *written, .blob_digest = "snapshot:x", .size_bytes = 5000}));
  const std::vector<wire::LayerId> layers = {*written, below->layers.front()};
  constexpr char kConfig[] =
      R"({"Env":["A=b"],"Cmd":["x"],"Labels":{"l":"1","odd":2},"ExposedPorts":{"80/tcp":{}}})";
  const auto made = store_->Commit(kHost, "b", layers, kConfig);
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_NE(made->digest, below->digest);
  EXPECT_EQ(store_->Commit(kHost, "c", layers, kConfig)->digest, made->digest);
  EXPECT_NE(store_->Commit(kHost, "c", layers, R"({"Env":["A=c"]})")->digest, made->digest);
  Reopen();
  ASSERT_TRUE(store_->Remove(kHost, "a", Unused));
  const auto found = store_->Find(kHost, "b");
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_EQ(found->layers, layers);
  EXPECT_EQ(found->config.env, std::vector<std::string>{"A=b"});
  EXPECT_EQ(found->config.labels, (std::map<std::string, std::string>{{"l", "1"}}));
  EXPECT_EQ(found->config.exposed_ports, std::vector<std::string>{"80/tcp"});
  EXPECT_EQ(store_->Commit(kHost, "b", {4711}, kConfig).error().code(), Code::kNotFound);
  EXPECT_EQ(store_->Commit(kHost, "b", layers, R"({"Env":["A"]})").error().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(store_->Commit(kHost, "../b", layers, kConfig).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(store_->Find(kHost, "b")->config.env, std::vector<std::string>{"A=b"});
}

TEST_F(ImageStoreTest, ATagIsAnotherNameOfTheSameLayers) {
  auto image = Import({{"base", "a"}, ""}, "a");
  Import({{"other"}, ""}, "b");
  auto tagged = store_->Tag(kHost, "a", "docker.io/library/b");
  ASSERT_TRUE(tagged) << tagged.error().message();
  EXPECT_EQ(tagged->name, "b:latest");
  EXPECT_EQ(tagged->digest, image->digest);
  Reopen();
  EXPECT_EQ(store_->Find(kHost, "b")->layers, image->layers);
  EXPECT_EQ(store_->LayersOf(*store_->Find(kHost, "b")).front().blob_digest, Sha256Of("a"));
  ASSERT_TRUE(store_->Remove(kHost, "a", Unused));
  loop_.Run();
  EXPECT_EQ(runner_.present.size(), 2U) << "the other name holds them; what it meant before went";
  EXPECT_EQ(store_->Tag(kHost, "a", "c").error().code(), Code::kNotFound);
  EXPECT_EQ(store_->Tag(kHost, "b", "../c").error().code(), Code::kInvalidArgument);
}

TEST_F(ImageStoreTest, PruneTakesOnlyWhatNobodyUses) {
  const wire::LayerId old = Import({{"base", "old"}, ""}, "a")->layers[0];
  const wire::LayerId held = Import({{"base", "held"}, ""}, "a")->layers[0];
  Import({{"base", "new"}, ""}, "a");
  Import({{"idle one", "base"}, ""}, "b");
  std::optional<Result<ImageStore::Pruned>> pruned;
  const auto prune = [&](const std::string& name) {
    pruned.reset();
    store_->Prune([name](const Image& image) { return image.name == name; },
                  [held](wire::LayerId id) { return id == held; },
                  [&](Result<ImageStore::Pruned> result) { pruned = std::move(result); });
    EXPECT_FALSE(pruned) << "called from inside Prune";
  };
  prune("");
  loop_.Run();
  ASSERT_TRUE(pruned && *pruned);
  EXPECT_TRUE((*pruned)->images.empty());
  EXPECT_EQ((*pruned)->layers, 1U);
  EXPECT_EQ((*pruned)->bytes, 3U);
  EXPECT_FALSE(runner_.present.contains(old));
  EXPECT_TRUE(runner_.present.contains(held));
  prune("b:latest");
  loop_.Run();
  EXPECT_EQ((*pruned)->images, std::vector<std::string>{"b:latest"});
  EXPECT_EQ((*pruned)->bytes, 8U);
  EXPECT_EQ(runner_.present.size(), 3U);
  prune("");
  loop_.Run();
  EXPECT_EQ((*pruned)->layers, 0U);
  Reopen();
  EXPECT_EQ(runner_.present.size(), 3U);
  EXPECT_EQ(store_->Find(kHost, "b").error().code(), Code::kNotFound);
}

// A layer that an import finds in the store at its start must be there at its end.
TEST_F(ImageStoreTest, PruneWaitsForWhatIsOnItsWay) {
  for (int steps = 0; steps < 12; ++steps) {
    ASSERT_TRUE(Import({{"base"}, ""}, "a"));
    FakeImage{{"base", "top"}, ""}.Fill(runner_, HostArchitecture());
    std::optional<Result<Image>> imported;
    std::optional<Result<ImageStore::Pruned>> pruned;
    store_->Import(kHost, Archive(), "b",
                   [&](Result<Image> image) { imported = std::move(image); });
    for (int i = 0; i < steps; ++i) loop_.Step();
    store_->Prune([](const Image& image) { return image.name == "a:latest"; }, Unused,
                  [&](Result<ImageStore::Pruned> result) { pruned = std::move(result); });
    loop_.Run();
    ASSERT_TRUE(imported && *imported) << steps;
    ASSERT_TRUE(pruned && *pruned) << steps;
    for (const wire::LayerId layer : (*imported)->layers) {
      EXPECT_TRUE(runner_.published.contains(layer)) << "after " << steps << " steps";
    }
    EXPECT_EQ((*pruned)->images, std::vector<std::string>{"a:latest"});
    ASSERT_TRUE(store_->Remove(kHost, "b", Unused));
    loop_.Run();
    EXPECT_TRUE(runner_.present.empty());
  }
}

TEST_F(ImageStoreTest, ANameMovesToTheNewImage) {
  auto first = Import({{"one"}, ""}, "a");
  auto second = Import({{"two"}, ""}, "a");
  ASSERT_TRUE(second);
  EXPECT_EQ(store_->List(kHost).size(), 1U);
  EXPECT_EQ(store_->Find(kHost, "a")->layers, second->layers);
  store_->CollectLayers(Unused);
  loop_.Run();
  EXPECT_FALSE(runner_.present.contains(first->layers[0]));
  EXPECT_TRUE(runner_.present.contains(second->layers[0]));
}

TEST_F(ImageStoreTest, LayersThatRepeatAreStackedOnce) {
  auto image = Import({{"empty", "a", "empty", "b"}, ""}, "a");
  ASSERT_TRUE(image);
  EXPECT_EQ(image->layers, (std::vector<wire::LayerId>{3, 1, 2}));
}

TEST_F(ImageStoreTest, NothingBelowAnOpaqueRootIsStacked) {
  const FakeImage image{{"base", "opaque", "top"}, ""};
  image.Fill(runner_, HostArchitecture());
  runner_.reports["opaque"].opaque_root = true;
  auto imported = ImportMembers("a");
  ASSERT_TRUE(imported);
  EXPECT_EQ(imported->layers.size(), 2U);
  EXPECT_EQ(runner_.present.size(), 2U) << "the hidden layer is not kept";
  // The mark also applies to the next image that shares the layer, even after a restart.
  Reopen();
  EXPECT_EQ(Import({{"other", "opaque"}, ""}, "b")->layers.size(), 1U);
}

TEST_F(ImageStoreTest, WhatIsReadIsComparedAndNotRemoved) {
  const auto image = Import({{"base", "top"}, ""}, "read");
  ASSERT_TRUE(image);
  ASSERT_EQ(image->layers.size(), 2U);
  runner_.packed = {{image->layers[0], FakeImage::Packed("top")},
                    {image->layers[1], FakeImage::Packed("base")}};
  std::optional<Result<std::shared_ptr<StoredArchive>>> archive;
  const auto done = [&](Result<std::shared_ptr<StoredArchive>> r) { archive = std::move(r); };
  store_->Export(*image, ArchiveForm::kOci, done);
  // The name may be removed meanwhile, the layers may not.
  ASSERT_TRUE(store_->Remove(kHost, "read", Unused));
  EXPECT_EQ(runner_.present.size(), 2U);
  loop_.Run();
  ASSERT_TRUE(archive && *archive) << archive->error().message();
  EXPECT_GT((**archive)->size(), 4U * 512);
  archive.reset();
  store_->CollectLayers(Unused);
  loop_.Run();
  EXPECT_TRUE(runner_.present.empty());

  const auto changed = Import({{"base"}, ""}, "changed");
  ASSERT_TRUE(changed);
  for (const bool same : {true, false}) {
    runner_.packed = {{changed->layers[0], same ? FakeImage::Packed("base") : "other"}};
    store_->Export(*changed, ArchiveForm::kDocker, done);
    std::optional<bool> intact;
    store_->Verify(kHost, "changed", [&](const auto& layers) {
      ASSERT_TRUE(layers && layers->size() == 1);
      intact = layers->front().same.has_value();
    });
    loop_.Run();
    EXPECT_EQ(intact, same);
    ASSERT_TRUE(archive);
    EXPECT_EQ(archive->has_value(), same);
  }
  // The store keeps the result over a restart.
  Reopen();
  std::optional<bool> intact;
  store_->Verify(kHost, "changed",
                 [&](const auto& layers) { intact = layers->front().same.has_value(); });
  loop_.Run();
  EXPECT_EQ(intact, false);
}

TEST_F(ImageStoreTest, AFewReadingsAtOnce) {
  const auto image = Import({{"base"}, ""}, "read");
  ASSERT_TRUE(image);
  std::vector<Code> refused;
  for (int i = 0; i < 5; ++i) {
    store_->Verify(kHost, "read", [&](const auto& layers) {
      if (!layers) refused.push_back(layers.error().code());
    });
  }
  loop_.Run();
  EXPECT_EQ(refused,
            (std::vector<Code>{Code::kUnavailable, Code::kUnavailable, Code::kUnavailable}));
}

TEST_F(ImageStoreTest, ArchivesThatNobodyTakesAreCounted) {
  std::vector<std::shared_ptr<StoredArchive>> kept;
  std::vector<Code> refused;
  const auto take = [&](const Image& image) {
    runner_.packed[image.layers[0]] = FakeImage::Packed(image.name.substr(0, 1));
    store_->Export(image, ArchiveForm::kOci, [&](Result<std::shared_ptr<StoredArchive>> archive) {
      archive ? kept.push_back(*archive) : refused.push_back(archive.error().code());
    });
    loop_.Run();
  };
  const std::vector<Code> unavailable = {Code::kUnavailable};
  for (const char* name : {"a", "b", "c", "d"}) {
    const auto image = Import({{name}, ""}, name);
    ASSERT_TRUE(image);
    refused.clear();
    for (int i = 0; i < 3; ++i) take(*image);
    EXPECT_EQ(refused, unavailable) << "two of an image";
  }
  ASSERT_EQ(kept.size(), 8U);
  const auto other = Import({{"e"}, ""}, "e");
  ASSERT_TRUE(other);
  refused.clear();
  take(*other);
  EXPECT_EQ(refused, unavailable) << "eight of all";
  // When one is finished, there is room for another.
  kept.pop_back();
  take(*other);
  EXPECT_EQ(kept.size(), 8U);
}

TEST_F(ImageStoreTest, AnArchiveThatDoesNotFitIsNotBegun) {
  auto image = Import({{"base"}, ""}, "huge");
  ASSERT_TRUE(image);
  image->size_bytes = uint64_t{1} << 60;
  std::optional<Error> refused;
  store_->Export(*image, ArchiveForm::kOci, [&](const auto& archive) {
    if (!archive) refused = archive.error();
  });
  loop_.Run();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->error_number(), ENOSPC);
}

TEST_F(ImageStoreTest, ACrashAtAnyMomentLeavesNothing) {
  ASSERT_TRUE(Import({{"base"}, ""}, "good"));
  const auto present = runner_.present;
  // Kills the store after n callbacks, for every n, until the import completes.
  for (int steps = 0;; ++steps) {
    FakeImage{{"base", "top", "more"}, ""}.Fill(runner_, HostArchitecture());
    std::optional<Result<Image>> result;
    store_->Import(kHost, Archive(), "crashed", [&](Result<Image> r) { result = std::move(r); });
    for (int i = 0; i < steps; ++i) loop_.Step();
    if (result) {
      EXPECT_TRUE(*result);
      EXPECT_GT(steps, 8);
      break;
    }
    store_.reset();
    loop_.Run();
    Reopen();
    EXPECT_TRUE(store_->Find(kHost, "good"));
    EXPECT_TRUE(std::filesystem::is_empty(directory_ + "/tmp"));
    if (store_->Find(kHost, "crashed")) {  // killed between the commit and its answer
      EXPECT_EQ(runner_.published.size(), 3U);
      ASSERT_TRUE(store_->Remove(kHost, "crashed", Unused));
      loop_.Run();
    }
    EXPECT_EQ(runner_.present, present) << "after " << steps << " steps";
  }
}

TEST_F(ImageStoreTest, LayersWithoutANameAreHisWhoAsked) {
  const FakeImage image{{"base", "top"}, "said", R"({"Labels":{"atoll.snapshot":"facts"}})"};
  std::set<wire::LayerId> mine;
  const auto in_use = [&](wire::LayerId layer) { return mine.contains(layer); };
  std::string refusal = "not this one";
  std::optional<Result<Image>> result;
  const auto import = [&] {
    image.Fill(runner_, HostArchitecture());
    store_->ImportLayers(
        kHost, Archive(),
        [&](const Image& seen) -> Status {
          EXPECT_EQ(seen.facts, "facts");
          EXPECT_TRUE(seen.digest.starts_with("sha256:"));
          EXPECT_TRUE(runner_.present.empty()) << "asked after something was unpacked";
          if (refusal.empty()) return {};
          return Fail(Code::kInvalidArgument, refusal);
        },
        [&](Result<Image> r) {
          result = std::move(r);
          if (*result) mine.insert((*result)->layers.begin(), (*result)->layers.end());
        });
  };
  import();
  loop_.Run();
  ASSERT_TRUE(result && !*result);
  EXPECT_EQ(result->error().message(), "not this one");
  EXPECT_TRUE(runner_.extracted.empty());
  refusal.clear();
  import();
  // The prune waits for the import and must find that its image uses the layers.
  store_->Prune([](const Image&) { return true; }, in_use,
                [](const Result<ImageStore::Pruned>&) {});
  loop_.Run();
  ASSERT_TRUE(*result) << result->error().message();
  EXPECT_EQ((*result)->name, "");
  EXPECT_EQ((*result)->layers.size(), 2U);
  EXPECT_TRUE(store_->List(kHost).empty());
  EXPECT_EQ(runner_.published.size(), 2U);
  Reopen();
  EXPECT_TRUE(store_->HasLayer((*result)->layers.front()));
  mine.clear();
  store_->CollectLayers(in_use);
  loop_.Run();
  EXPECT_TRUE(runner_.present.empty());
}

TEST_F(ImageStoreTest, ACrashAtAnyMomentLeavesNoLayerWithoutAName) {
  bool done = false;
  for (int steps = 0; !done; ++steps) {
    FakeImage{{"base", "top"}, ""}.Fill(runner_, HostArchitecture());
    store_->ImportLayers(
        kHost, Archive(), [](const Image&) { return Status(); },
        [&](const Result<Image>& image) { done = image.has_value(); });
    for (int i = 0; i < steps; ++i) loop_.Step();
    store_.reset();
    loop_.Run();
    Reopen();
    // Every start collects unused layers.
    store_->CollectLayers(Unused);
    loop_.Run();
    EXPECT_TRUE(runner_.present.empty()) << "after " << steps << " steps";
    EXPECT_TRUE(std::filesystem::is_empty(directory_ + "/tmp"));
  }
}

TEST_F(ImageStoreTest, AnArchiveHasABlobOnce) {
  Image image;
  image.name = "snapshot:x";
  image.facts = "facts";
  for (const char* name : {"a", "b", "c"}) {
    Layer layer;
    layer.id = *store_->ReserveLayer();
    layer.blob_digest = name;
    ASSERT_TRUE(store_->KeepLayer(layer));
    runner_.packed[layer.id] = std::string(name) == "b" ? "another" : "the same";
    image.layers.insert(image.layers.begin(), layer.id);
  }
  std::string written;
  std::function<void(std::shared_ptr<StoredArchive>)> read =
      [&](const std::shared_ptr<StoredArchive>& archive) {
        archive->Read([&, archive](const Result<std::string>& part) {
          ASSERT_TRUE(part);
          written += *part;
          if (!part->empty()) read(archive);
        });
      };
  store_->Export(image, ArchiveForm::kOci, [&](Result<std::shared_ptr<StoredArchive>> archive) {
    ASSERT_TRUE(archive) << archive.error().message();
    read(*archive);
  });
  loop_.Run();
  const auto count = [&](const std::string& what) {
    size_t times = 0;
    for (size_t at = 0; (at = written.find(what, at)) != std::string::npos; ++at) ++times;
    return times;
  };
  EXPECT_EQ(count("blobs/sha256/" + FakeImage::Hex("the same")), 1U);
  EXPECT_EQ(count("blobs/sha256/" + FakeImage::Hex("another")), 1U);
  // The config and the manifest name it twice each.
  EXPECT_EQ(count("sha256:" + FakeImage::Hex("the same")), 4U);
  EXPECT_EQ(count(R"("atoll.snapshot":"facts")"), 1U);
  EXPECT_EQ(written.size() % 512, 0U);
}

TEST_F(ImageStoreTest, ARemovalAtAnyMomentOfAnImportAgreesWithTheDatabase) {
  int refused = 0;
  bool done = false;
  for (int steps = 0; !done || steps < 8; ++steps) {
    ASSERT_TRUE(Import({{"base"}, ""}, "a"));
    FakeImage{{"base", "top"}, ""}.Fill(runner_, HostArchitecture());
    done = false;
    store_->Import(kHost, Archive(), "a",
                   [&](const Result<Image>& image) { done = image.has_value(); });
    for (int i = 0; i < steps; ++i) loop_.Step();
    auto removed = store_->Remove(kHost, "a", Unused);
    if (!removed) {
      EXPECT_EQ(removed.error().code(), Code::kFailedPrecondition);
      ++refused;
    }
    const bool was_done = done;
    loop_.Run();
    const bool there = store_->Find(kHost, "a").has_value();
    EXPECT_EQ(there, !was_done) << "after " << steps << " steps";
    Reopen();
    EXPECT_EQ(store_->Find(kHost, "a").has_value(), there) << "after " << steps << " steps";
    if (there) {
      const Image image = *store_->Find(kHost, "a");
      for (const wire::LayerId layer : image.layers) {
        EXPECT_TRUE(runner_.published.contains(layer)) << "after " << steps << " steps";
      }
      ASSERT_TRUE(store_->Remove(kHost, "a", Unused));
    }
    store_->CollectLayers(Unused);
    loop_.Run();
    EXPECT_TRUE(runner_.present.empty());
    done = was_done;
  }
  EXPECT_GT(refused, 0);
}

TEST_F(ImageStoreTest, RefusesWrongArguments) {
  std::optional<Result<Image>> result;
  store_->Import(kHost, Archive(), "Bad Name", [&](Result<Image> r) { result = std::move(r); });
  loop_.Run();
  EXPECT_EQ(result->error().code(), Code::kInvalidArgument);
  auto pipe = sys::MakePipe();
  store_->Import(kHost, std::move(pipe->read), "x",
                 [&](Result<Image> r) { result = std::move(r); });
  loop_.Run();
  EXPECT_NE(result->error().message().find("regular file"), std::string::npos);
  FakeImage{{"a"}, ""}.Fill(runner_, HostArchitecture());
  EXPECT_NE(ImportMembers("").error().message().find("give a name"), std::string::npos);
}

}  // namespace
}  // namespace atl::images
