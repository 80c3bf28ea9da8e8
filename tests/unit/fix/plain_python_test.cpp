// Launch lines of scripts that could run as several processes.
#include <gtest/gtest.h>

#include "support/fix_project.hpp"

namespace lockstep {
namespace {

using testing::FixProject;
using testing::trainer_script;

const std::string kTrains = trainer_script("", "");

std::string line_after(const std::string& line, const std::string& script = kTrains) {
  FixProject project;
  project.file("train.py", script).file("run.sh", line);
  return project.after("run.sh");
}

TEST(PlainPython, BecomesTorchrunWithAsManyProcessesAsGpusAreVisible) {
  EXPECT_EQ(line_after("CUDA_VISIBLE_DEVICES=0,1 python train.py --lr 1\n"),
            "CUDA_VISIBLE_DEVICES=0,1 torchrun --standalone --nproc_per_node=2 train.py --lr 1\n");
}

TEST(PlainPython, TakesGpuForTheCountWhereNothingSaysHowMany) {
  EXPECT_EQ(line_after("python3 train.py\n"),
            "torchrun --standalone --nproc_per_node=gpu train.py\n");
}

TEST(PlainPython, FollowsExportsAndVariablesToTheLine) {
  EXPECT_EQ(line_after("GPUS=\"0,1,2,3\"\nexport CUDA_VISIBLE_DEVICES=$GPUS\npython train.py\n"),
            "GPUS=\"0,1,2,3\"\nexport CUDA_VISIBLE_DEVICES=$GPUS\ntorchrun --standalone "
            "--nproc_per_node=4 train.py\n");
}

TEST(PlainPython, KeepsContinuationsNohupRedirectionsAndComments) {
  EXPECT_EQ(line_after("#!/bin/bash\n# start\nnohup python -u train.py \\\n    --lr 1e-4 \\\n    "
                       "--epochs 3 > log 2>&1 &  # in the background\n"),
            "#!/bin/bash\n# start\nnohup torchrun --standalone --nproc_per_node=gpu train.py \\\n  "
            "  --lr 1e-4 \\\n    --epochs 3 > log 2>&1 &  # in the background\n");
}

TEST(PlainPython, KeepsTheInterpreterThatWasChosen) {
  EXPECT_EQ(
      line_after("/opt/venv/bin/python train.py\n"),
      "/opt/venv/bin/python -m torch.distributed.run --standalone --nproc_per_node=gpu train.py\n");
  EXPECT_EQ(
      line_after("PY=python3.10\n$PY train.py\n"),
      "PY=python3.10\n$PY -m torch.distributed.run --standalone --nproc_per_node=gpu train.py\n");
}

TEST(PlainPython, StartsModulesAsModules) {
  FixProject project;
  project.file("pkg/train.py", kTrains)
      .file("pkg/__init__.py", "")
      .file("run.sh", "python -m pkg.train --x\n");

  EXPECT_EQ(project.after("run.sh"),
            "torchrun --standalone --nproc_per_node=gpu -m pkg.train --x\n");
}

TEST(PlainPython, UnderSrunUsesTheGpusOfTheJob) {
  EXPECT_EQ(line_after("#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=1\n#SBATCH "
                       "--gres=gpu:a100:4\nsrun python train.py\n"),
            "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=1\n#SBATCH "
            "--gres=gpu:a100:4\nsrun torchrun --standalone --nproc_per_node=4 train.py\n");
}

TEST(PlainPython, InAMakefileRecipeIsALaunchLineToo) {
  FixProject project;
  project.file("train.py", kTrains)
      .file("Makefile",
            "PYTHON ?= python\n\ntrain: data\n\t@CUDA_VISIBLE_DEVICES=0,1 $(PYTHON) train.py "
            "--seed $$SEED\n");

  EXPECT_EQ(project.after("Makefile"),
            "PYTHON ?= python\n\ntrain: data\n\t@CUDA_VISIBLE_DEVICES=0,1 $(PYTHON) -m "
            "torch.distributed.run --standalone --nproc_per_node=2 train.py --seed $$SEED\n");
}

TEST(PlainPython, InAnAzureCommandStringIsALaunchLineToo) {
  FixProject project;
  project.file("train.py", kTrains)
      .file("job.yml",
            "code: .\ncommand: >-\n  python train.py\n  --data ${{inputs.data}}\nenvironment: "
            "azureml:x\n");

  EXPECT_EQ(project.after("job.yml"),
            "code: .\ncommand: >-\n  torchrun --standalone --nproc_per_node=gpu train.py\n  --data "
            "${{inputs.data}}\nenvironment: azureml:x\n");
}

TEST(PlainPython, InAKubernetesListGetsNewWordsInTheSameQuotes) {
  FixProject project;
  project.file("train.py", kTrains)
      .file("pod.yaml",
            "spec:\n  containers:\n    - name: t\n      command: [\"python\", \"train.py\"]\n      "
            "resources:\n        limits:\n          nvidia.com/gpu: 4\n")
      .file("list.yaml",
            "spec:\n  containers:\n    - name: t\n      command:\n        - python\n        - "
            "train.py\n      resources:\n        limits:\n          nvidia.com/gpu: 2\n");

  EXPECT_NE(
      project.after("pod.yaml")
          .find("command: [\"torchrun\", \"--standalone\", \"--nproc_per_node=4\", \"train.py\"]"),
      std::string::npos)
      << project.after("pod.yaml");
  EXPECT_NE(project.after("list.yaml")
                .find("command:\n        - torchrun\n        - --standalone\n        - "
                      "--nproc_per_node=2\n        - train.py\n"),
            std::string::npos)
      << project.after("list.yaml");
}

TEST(PlainPython, InKubernetesCommandAndArgsIsOneLine) {
  FixProject project;
  project.file("train.py", kTrains)
      .file("a.yaml",
            "spec:\n  containers:\n    - command: [\"python\"]\n      args: [\"train.py\", "
            "\"--x\"]\n      resources: {limits: {nvidia.com/gpu: 2}}\n")
      .file("b.yaml",
            "spec:\n  containers:\n    - command: [\"/bin/bash\", \"-c\"]\n      args: [\"cd /app "
            "&& python train.py\"]\n");

  EXPECT_NE(
      project.after("a.yaml").find("command: [\"torchrun\", \"--standalone\", \"--nproc_per_node="),
      std::string::npos)
      << project.after("a.yaml");
  EXPECT_NE(project.after("b.yaml").find(
                "args: [\"cd /app && torchrun --standalone --nproc_per_node=gpu train.py\"]"),
            std::string::npos)
      << project.after("b.yaml");
}

TEST(PlainPython, IsUnsafeAndSaysWhatHappensToTheBatch) {
  FixProject project;
  project.file("train.py", kTrains).file("run.sh", "python train.py\n");

  const FixPlan plan = project.plan();

  ASSERT_EQ(plan.groups.size(), 1U);
  EXPECT_EQ(plan.groups.front().safety, FixSafety::unsafe);
  EXPECT_NE(plan.findings.front().ways.front().changes.find("global batch"), std::string::npos);
}

TEST(PlainPython, FindsTheTrainingInAModuleThatTheScriptImports) {
  FixProject project;
  project.file("main.py", "from lib.work import run\n\nif __name__ == \"__main__\":\n    run()\n")
      .file("lib/__init__.py", "")
      .file("lib/work.py",
            "from transformers import Trainer\n\ndef run():\n    trainer = Trainer(model=make())\n "
            "   trainer.train()\n\ndef other():\n    pass\n")
      .file("run.sh", "CUDA_VISIBLE_DEVICES=0,1 python main.py\n");

  EXPECT_TRUE(project.finds("X701 run.sh"));
}

TEST(PlainPython, IsFoundBesideACopyOfTheLibrary) {
  FixProject project;
  project
      .file("transformers/__init__.py",
            "class Trainer:\n    def train(self):\n        mp.spawn(1)\n")
      .file("train.py", kTrains)
      .file("run.sh", "CUDA_VISIBLE_DEVICES=0,1 python train.py\n");

  EXPECT_TRUE(project.finds("X701 run.sh"));
}

TEST(PlainPython, CanKeepTheGlobalBatchByDividingTheAccumulation) {
  FixProject project;
  project.file("train.py", trainer_script("device_map=\"auto\"", "gradient_accumulation_steps=8"))
      .file("run.sh", "CUDA_VISIBLE_DEVICES=0,1 python train.py\n")
      .wish({.batch = GlobalBatch::keep});

  EXPECT_NE(project.after("train.py").find("gradient_accumulation_steps=4"), std::string::npos)
      << project.after("train.py");
  EXPECT_NE(project.after("run.sh").find("torchrun"), std::string::npos);
}

struct UntouchedLine {
  const char* why;
  std::string line;
  std::string script;
};
void PrintTo(const UntouchedLine& untouched, std::ostream* out) { *out << untouched.why; }
class PlainPythonStays : public ::testing::TestWithParam<UntouchedLine> {};

TEST_P(PlainPythonStays, ByteForByte) {
  EXPECT_EQ(line_after(GetParam().line, GetParam().script), GetParam().line) << GetParam().why;

  FixProject project;
  project.file("train.py", GetParam().script).file("run.sh", GetParam().line);
  EXPECT_FALSE(project.finds("X701")) << GetParam().why;
}

const std::string kAccelerate =
    "from accelerate import Accelerator\naccelerator = Accelerator()\nmodel = "
    "accelerator.prepare(model)\naccelerator.backward(loss)\n";
INSTANTIATE_TEST_SUITE_P(
    MustNotTouch, PlainPythonStays,
    ::testing::Values(
        UntouchedLine{"one GPU is visible", "CUDA_VISIBLE_DEVICES=0 python train.py\n", kTrains},
        UntouchedLine{"no GPU is visible", "CUDA_VISIBLE_DEVICES= python train.py\n", kTrains},
        UntouchedLine{"the job has one GPU", "#!/bin/bash\n#SBATCH --gres=gpu:1\npython train.py\n",
                      kTrains},
        UntouchedLine{"SLURM starts a task a GPU",
                      "#!/bin/bash\n#SBATCH --ntasks-per-node=4\n#SBATCH --gres=gpu:4\nsrun python "
                      "train.py\n",
                      kTrains},
        UntouchedLine{
            "several nodes need a meeting point",
            "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gres=gpu:4\nsrun python train.py\n",
            kTrains},
        UntouchedLine{"mpirun starts the ranks", "mpirun -np 4 python train.py\n", kTrains},
        UntouchedLine{"it is launched already", "torchrun --nproc_per_node=2 train.py\n", kTrains},
        UntouchedLine{"it is launched already", "accelerate launch train.py\n", kTrains},
        UntouchedLine{"it is launched already", "deepspeed train.py\n", kTrains},
        UntouchedLine{"a GPU is chosen by argument", "python train.py --device cuda:1\n", kTrains},
        UntouchedLine{"it evaluates only", "python train.py --do_eval\n", kTrains},
        UntouchedLine{"it evaluates only", "python train.py --do_train False --do_predict\n",
                      kTrains},
        UntouchedLine{"it is printed, not run", "echo python train.py\n", kTrains},
        UntouchedLine{"it stands in a comment", "# python train.py\n", kTrains},
        UntouchedLine{"it stands in a here-document", "cat > job.sh <<EOF\npython train.py\nEOF\n",
                      kTrains},
        UntouchedLine{"it does not train", "python train.py\n",
                      "from transformers import pipeline\nprint(pipeline(\"x\"))\n"},
        UntouchedLine{"Trainer only evaluates", "python train.py\n",
                      "from transformers import Trainer\ntrainer = "
                      "Trainer(model=m)\nprint(trainer.evaluate())\n"},
        UntouchedLine{
            "model.train() switches a mode", "python train.py\n",
            "import torch\nfrom transformers import Trainer\nmodel.train()\nloss.backward()\n"},
        UntouchedLine{
            "mp.spawn starts the processes", "python train.py\n",
            "import torch.multiprocessing as mp\n" + kTrains + "mp.spawn(main, nprocs=2)\n"},
        UntouchedLine{
            "Lightning starts the processes", "python train.py\n",
            "import pytorch_lightning as pl\ntrainer = "
            "pl.Trainer(devices=2)\ntrainer.fit(model)\ntrainer.train()\nloss.backward()\n"},
        UntouchedLine{"the code chooses one GPU", "python train.py\n",
                      "import os\nos.environ[\"CUDA_VISIBLE_DEVICES\"] = \"1\"\n" + kTrains},
        UntouchedLine{"the code names one GPU", "python train.py\n",
                      kTrains + "x = x.to(\"cuda:1\")\n"},
        UntouchedLine{"SLURM starts 16 tasks", "srun --ntasks=16 python train.py\n", kTrains},
        UntouchedLine{"two nodes", "#!/bin/bash\n#SBATCH -N2\nsrun python train.py\n", kTrains},
        UntouchedLine{"two nodes",
                      "#!/bin/bash\n#SBATCH -p gpu -N 2 --gres=gpu:4\nsrun python train.py\n",
                      kTrains},
        UntouchedLine{"it is killed, not run", "pkill -f python train.py\n", kTrains},
        UntouchedLine{"it is copied, not run", "rsync python train.py host:\n", kTrains},
        UntouchedLine{"xargs runs several", "seq 4 | xargs -P4 -I{} python train.py\n", kTrains},
        UntouchedLine{"it does other work", "python train.py generate\n", kTrains},
        UntouchedLine{"the folder has no such script", "cd sub\npython train.py\n", kTrains},
        UntouchedLine{"a resumed run keeps its shape",
                      "python train.py --resume_from_checkpoint out\n", kTrains},
        UntouchedLine{"the user says so", "# single GPU\npython train.py\n", kTrains},
        UntouchedLine{"two runs side by side",
                      "python train.py --seed 1 &\npython train.py --seed 2 &\n", kTrains},
        UntouchedLine{"a function is given its GPU",
                      "run() { CUDA_VISIBLE_DEVICES=$1 python train.py; }\nrun 0 &\n", kTrains},
        UntouchedLine{"it runs on the CPU", "python train.py --use_cpu\n", kTrains},
        UntouchedLine{
            "Trainer is another library's", "python train.py\n",
            "from detectron2.engine import DefaultTrainer\nclass MyTrainer(DefaultTrainer):\n    "
            "pass\ntrainer = MyTrainer(cfg)\ntrainer.train()\n"},
        UntouchedLine{"Trainer is the project's own", "python train.py\n",
                      "import transformers\nfrom engine import Trainer\ntrainer = Trainer(model=1, "
                      "args=2)\ntrainer.train()\n"},
        UntouchedLine{"unsloth trains on one GPU", "python train.py\n",
                      "import unsloth\n" + kTrains},
        UntouchedLine{"a sweep in the background uses its own GPUs",
                      "for s in 1 2; do\n  python train.py --seed $s &\ndone\n", kTrains}));

// What the shell does not know before it runs is left to torchrun.
class ShellState : public ::testing::TestWithParam<const char*> {};
TEST_P(ShellState, ThatIsNotKnownIsNotGuessed) {
  const std::string result = line_after(GetParam());

  EXPECT_NE(result.find("--nproc_per_node=gpu train.py"), std::string::npos) << result;
}
INSTANTIATE_TEST_SUITE_P(
    Scripts, ShellState,
    ::testing::Values(
        "G=0,1; G+=\",2,3\"\nCUDA_VISIBLE_DEVICES=$G python train.py\n",
        "(export CUDA_VISIBLE_DEVICES=0,1; ls)\npython train.py\n",
        "G=0,1\nfor G in 0 1; do CUDA_VISIBLE_DEVICES=$G python train.py; done\n",
        "[ -z \"$G\" ] && G=0,1\nCUDA_VISIBLE_DEVICES=$G python train.py\n",
        "CUDA_VISIBLE_DEVICES=${G:-0,1} python train.py\n",
        "G=0,1\nread G\nexport CUDA_VISIBLE_DEVICES=$G\npython train.py\n",
        "export CUDA_VISIBLE_DEVICES=0,1\nunset CUDA_VISIBLE_DEVICES\npython train.py\n",
        "if true; then G=0,1; else G=0; fi\nCUDA_VISIBLE_DEVICES=$G python train.py\n"));

TEST(PlainPython, InASubshellKnowsWhatIsSetThere) {
  EXPECT_EQ(
      line_after("(export CUDA_VISIBLE_DEVICES=0,1; python train.py)\n"),
      "(export CUDA_VISIBLE_DEVICES=0,1; torchrun --standalone --nproc_per_node=2 train.py)\n");
}

TEST(PlainPython, EachRecipeLineOfAMakefileHasAShellOfItsOwn) {
  FixProject project;
  project.file("train.py", kTrains)
      .file("Makefile", "a:\n\texport CUDA_VISIBLE_DEVICES=0,1\nb:\n\tpython train.py\n");

  EXPECT_NE(project.after("Makefile").find("--nproc_per_node=gpu"), std::string::npos);
}

TEST(PlainPython, SeesTheGpusThatAMakefileOrAComposeFileLeavesVisible) {
  FixProject project;
  const std::string make = "export CUDA_VISIBLE_DEVICES := 0\nt:\n\tpython train.py\n";
  const std::string compose =
      "services:\n  t:\n    command: python train.py\n    environment:\n      - "
      "CUDA_VISIBLE_DEVICES=0\n";
  project.file("train.py", kTrains).file("Makefile", make).file("compose.yaml", compose);

  EXPECT_EQ(project.after("Makefile"), make);
  EXPECT_EQ(project.after("compose.yaml"), compose);
}

// A map that is not by rank would end a run of several processes with an error.
class UnsettledMap : public ::testing::TestWithParam<std::string> {};
TEST_P(UnsettledMap, KeepsTheLaunchLineAsItIs) {
  const std::string line = "CUDA_VISIBLE_DEVICES=0,1 python train.py\n";

  EXPECT_EQ(line_after(line, GetParam()), line);
}
INSTANTIATE_TEST_SUITE_P(
    Scripts, UnsettledMap,
    ::testing::Values(
        trainer_script("device_map=args.device_map", ""),
        trainer_script("device_map=infer_auto_device_map(x)", ""),
        trainer_script("device_map={\"a\": 0, \"b\": 1}", ""),
        trainer_script("device_map=\"auto\" if big else None", ""),
        trainer_script("", "", "model = dispatch_model(model)\n"),
        trainer_script("", "", "model.parallelize()\n"),
        trainer_script("device_map=where", "")
            .insert(0, "where = \"auto\"\nif qlora:\n    where = {\"\": LOCAL_RANK}\n"),
        trainer_script("**kw", "")
            .insert(0,
                    "kw = {\"device_map\": \"auto\"}\nkw = {\"device_map\": \"auto\", \"x\": 1}\n"),
        trainer_script(
            "", "",
            "teacher = AutoModelForCausalLM.from_pretrained(\"big\", device_map=\"auto\")\n")));

TEST(PlainPython, GivesOtherSplitModelsOfTheScriptTheirGpuToo) {
  FixProject project;
  project
      .file("train.py",
            trainer_script(
                "device_map=\"auto\"", "",
                "ref = AutoModelForCausalLM.from_pretrained(\"gpt2\", device_map=\"auto\")\n"))
      .file("run.sh", "CUDA_VISIBLE_DEVICES=0,1 python train.py\n");

  EXPECT_NE(project.after("run.sh").find("torchrun"), std::string::npos);
  EXPECT_EQ(project.after("train.py").find("\"auto\""), std::string::npos)
      << project.after("train.py");
}

TEST(PlainPython, KnowsWhatIsExportedBeforeItInOneChain) {
  EXPECT_EQ(line_after("export A=1 && export CUDA_VISIBLE_DEVICES=3 && python train.py\n"),
            "export A=1 && export CUDA_VISIBLE_DEVICES=3 && python train.py\n")
      << "one GPU is visible";
  EXPECT_NE(line_after("cd . && export CUDA_VISIBLE_DEVICES=0,1 && python train.py\n")
                .find("--nproc_per_node=2"),
            std::string::npos);
}

TEST(PlainPython, IsShownOnlyWhereEveryRankWouldAskOrNameItsOwnFolder) {
  const std::string line = "CUDA_VISIBLE_DEVICES=0,1 python train.py\n";

  EXPECT_EQ(line_after(line, trainer_script("", "", "name = input()\n")), line);
  EXPECT_EQ(line_after(line, trainer_script("", "", "out = wandb.run.name\n")), line);
}

TEST(PlainPython, OfAnEvaluationWithAccelerateStays) {
  const std::string line = "CUDA_VISIBLE_DEVICES=0,1 python train.py\n";

  EXPECT_EQ(line_after(line,
                       "from accelerate import Accelerator\naccelerator = Accelerator()\nmodel = "
                       "accelerator.prepare(model)\nprint(evaluate(model))\n"),
            line);
}

TEST(PlainPython, OfATorchThatHasNoTorchrunStays) {
  FixProject project;
  project.file("train.py", kTrains)
      .file("requirements.txt", "torch==1.8.1\n")
      .file("run.sh", "python train.py\n");

  EXPECT_FALSE(project.finds("X701"));
}

TEST(PlainPython, AskedToKeepTheBatchDoesNotLetItGrow) {
  FixProject project;
  project.file("train.py", trainer_script("device_map=\"auto\"", "gradient_accumulation_steps=8"))
      .file("run.sh", "python train.py\n")
      .wish({.batch = GlobalBatch::keep});

  EXPECT_EQ(project.after("run.sh"), "python train.py\n") << "how many GPUs there are is not known";
}

TEST(PlainPython, OfAccelerateScriptsLeavesGpusIdle) {
  FixProject project;
  project.file("train.py", kAccelerate)
      .file("run.sh", "CUDA_VISIBLE_DEVICES=0,1 python train.py\n");

  EXPECT_TRUE(project.finds("X701 run.sh"));
  EXPECT_NE(project.after("run.sh").find("torchrun --standalone --nproc_per_node=2"),
            std::string::npos);
}

TEST(PlainPython, OfDdpScriptsThatReadTheEnvironmentIsFound) {
  const std::string script =
      "import os\nimport torch.distributed as dist\nfrom torch.nn.parallel import "
      "DistributedDataParallel as DDP\nlocal = int(os.environ.get(\"LOCAL_RANK\", 0))\n"
      "dist.init_process_group(\"nccl\")\nmodel = DDP(model, "
      "device_ids=[local])\nloss.backward()\n";
  FixProject project;
  project.file("train.py", script).file("run.sh", "python train.py\n");

  EXPECT_TRUE(project.finds("X701 run.sh"));
}

TEST(PlainPython, OfDdpScriptsThatTakeTheirRankAsAnArgumentStays) {
  const std::string script =
      "import torch.distributed as dist\nfrom torch.nn.parallel import DistributedDataParallel as "
      "DDP\n"
      "dist.init_process_group(\"nccl\", rank=args.rank, world_size=args.world_size)\nmodel = "
      "DDP(model)\nloss.backward()\n";

  EXPECT_EQ(line_after("python train.py\n", script), "python train.py\n");
}

TEST(PlainPython, BesideAzuresOwnDistributionStays) {
  FixProject project;
  const std::string job =
      "command: python train.py\ndistribution:\n  type: pytorch\n  process_count_per_instance: 4\n";
  project.file("train.py", kTrains).file("job.yml", job);

  EXPECT_EQ(project.after("job.yml"), job);
}

}  // namespace
}  // namespace lockstep
