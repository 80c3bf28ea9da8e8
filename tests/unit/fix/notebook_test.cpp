#include "fix/project/notebook.hpp"

#include <gmock/gmock.h>

#include "fix/chosen_patches.hpp"
#include "support/fix_project.hpp"

namespace lockstep {
namespace {

using ::testing::Contains;
using testing::FixProject;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// As Jupyter writes it, but for what else is in one: outputs, metadata.
constexpr std::string_view kCells = R"x({
 "cells": [
  {
   "cell_type": "markdown",
   "source": ["# Training"]
  },
  {
   "cell_type": "code",
   "outputs": [{"text": ["caf\u00e9 \/ 3\n"]}],
   "source": [
    "!pip install transformers\n",
    "from transformers import AutoModel, Trainer, TrainingArguments"
   ]
  },
  {
   "cell_type": "code",
   "source": "%%bash\nls"
  },
  {
   "cell_type": "code",
   "source": [
    "# na\u00efve\n",
    "args = TrainingArguments('out', dataloader_num_workers=4,\n",
    "    logging_steps=1)\n",
    "Trainer(AutoModel.from_pretrained('m'), args).train()\n"
   ]
  }
 ]
}
)x";

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  return text.replace(text.find(from), from.size(), to);
}

// What would be on the disk.
std::string written(const FixProject& project) {
  const Project before = project.read();
  const FixPlan plan = project.plan();
  const Patched patched = apply_in_memory(before, plan, {}, {}, Apply::safe_and_unsafe);
  const auto files = rewrites(before, before.with(patched.texts));
  return files.empty() ? "" : files.front().after;
}

TEST(Notebooks, NamesTheCellAndItsLine) {
  FixProject project;
  project.file("x.ipynb", std::string(kCells));

  EXPECT_THAT(project.findings(), Contains("S302 x.ipynb cell 4:3"));
  EXPECT_TRUE(project.finds("X701 x.ipynb cell 4:4"));  // notebook_launcher
}

TEST(Notebooks, ChangesALineAndLeavesTheOtherBytesAsTheyAre) {
  FixProject project;
  project.file("x.ipynb", std::string(kCells)).filter({.select = {FindingCode::logging_too_often}});

  EXPECT_EQ(written(project),
            replaced(std::string(kCells), "    logging_steps=1)", "    logging_steps=10)"));
  EXPECT_THAT(project.refusals(), IsEmpty());
}

TEST(Notebooks, ShowsTheDiffOfTheFileOnTheDisk) {
  FixProject project;
  project.file("x.ipynb", std::string(kCells)).filter({.select = {FindingCode::logging_too_often}});

  const Project read = project.read();
  const FixPlan plan = project.plan();
  const std::string diff =
      diff_of_texts(read, apply_in_memory(read, plan, {}, {}, Apply::safe_and_unsafe).texts);

  EXPECT_THAT(
      diff, HasSubstr("\n-    \"    logging_steps=1)\\n\",\n+    \"    logging_steps=10)\\n\",\n"));
  EXPECT_THAT(diff, Not(HasSubstr("notebook cell")));
}

TEST(Notebooks, PutsLinesIntoACellThatIsOneString) {
  const auto notebook = Notebook::read(
      R"x({"cells":[{"cell_type":"code","source":"a = 1\nb = 2"},{"cell_type":"code","source":"c = \"3\""}]})x");
  ASSERT_TRUE(notebook);
  std::string code = notebook->code();
  code = replaced(code, "b = 2\n", "import os\nb = \"2\"\nd = 4\n");

  EXPECT_EQ(
      notebook->with_code(code),
      R"x({"cells":[{"cell_type":"code","source":"a = 1\nimport os\nb = \"2\"\nd = 4"},{"cell_type":"code","source":"c = \"3\""}]})x");
}

TEST(Notebooks, GivesLastLinesTheirEnds) {
  const auto notebook = Notebook::read(
      "{\"cells\": [{\"cell_type\": \"code\", \"source\": [\n \"a = 1\\n\",\n \"b = 2\"\n]}]}");
  ASSERT_TRUE(notebook);

  EXPECT_EQ(notebook->with_code(notebook->code() + "c = 3\n"),
            "{\"cells\": [{\"cell_type\": \"code\", \"source\": [\n \"a = 1\\n\",\n \"b = "
            "2\\n\",\n \"c = 3\"\n]}]}");
}

TEST(Notebooks, PutNothingBetweenTheirCellsNorIntoLinesOfTheShell) {
  const auto notebook = Notebook::read(std::string(kCells));
  ASSERT_TRUE(notebook);
  const std::string& code = notebook->code();

  EXPECT_EQ(notebook->with_code(code), kCells);
  EXPECT_FALSE(notebook->with_code(replaced(code, "# !pip install", "# !pip uninstall")));
  EXPECT_FALSE(notebook->with_code(replaced(code, "# --- notebook cell 3 ---\n", "")));
  EXPECT_FALSE(notebook->with_code("import os\n" + code));
}

TEST(Notebooks, TakeAnImportIntoTheCellOfTheOthers) {
  FixProject project;
  const std::string cells = R"x({"cells": [
 {"cell_type": "code", "source": ["import torch\n", "%matplotlib inline\n"]},
 {"cell_type": "code", "source": ["device = torch.device('cuda')\n", "net = torch.nn.Linear(4, 4).to(device)\n", "opt = torch.optim.SGD(net.parameters(), lr=0.1)\n"]},
 {"cell_type": "code", "source": ["for i, x in enumerate(loader):\n", "    loss = net(x.to(device)).mean()\n", "    loss.backward()\n", "    opt.step()\n", "    opt.zero_grad()\n", "    print(loss.item())"]}]})x";
  project.file("x.ipynb", cells).filter({.select = {FindingCode::logging_too_often}});

  const std::string after = written(project);

  EXPECT_THAT(after, HasSubstr("% 50 == 0:\\n\""));
  EXPECT_TRUE(Notebook::read(after));
}

TEST(Notebooks, ThatAreNoneAreNotRead) {
  for (const char* const text : {"", "{", "[]", "{\"cells\": 3}", "{\"cells\": [1, \"x\"]"})
    EXPECT_FALSE(Notebook::read(text)) << text;
  EXPECT_TRUE(Notebook::read("{\"cells\": [1, \"x\", {\"cell_type\": \"code\"}]}"));
}

}  // namespace
}  // namespace lockstep
