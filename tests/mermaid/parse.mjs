// What Mermaid makes of texts: a JSON list of them on standard input, a JSON list of answers on standard output.
// An answer holds the kind of diagram, its nodes and its arrows, each by its text; or the error.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const packages = createRequire(join(process.argv[2], "package.json"));
const { JSDOM } = packages("jsdom");
const { window } = new JSDOM("");
Object.assign(globalThis, { window, document: window.document });
const { default: mermaid } = await import(pathToFileURL(packages.resolve("mermaid")));
await mermaid.parse("stateDiagram-v2"); // it learns of its diagrams when it is asked first

// what Mermaid writes entities as while it parses, and turns into entities again when it draws
const drawn = (text) => String(text ?? "").replaceAll("ﬂ°°", "&#").replaceAll("ﬂ°", "&").replaceAll("¶ß", ";");

const isNote = (message) => message.placement !== undefined;

const READ = {
  sequence: (db) => ({
    nodes: [...db.getActors().values()].map((actor) => drawn(actor.description)),
    arrows: db.getMessages().filter((message) => !isNote(message)).map((message) => drawn(message.message)),
    notes: db.getMessages().filter(isNote).map((message) => drawn(message.message)),
  }),
  stateDiagram: (db) => ({
    nodes: [...db.getStates().keys()],
    arrows: db.getRelations().map((arrow) => drawn(arrow.relationTitle)),
    marked: [...db.getStates().values()].filter((state) => state.classes?.length).map((state) => state.id),
    notes: [...db.getStates().values()].filter((state) => state.note).map((state) => drawn(state.note.text)),
  }),
  "flowchart-v2": (db) => ({
    nodes: [...db.getVertices().values(), ...db.getSubGraphs()].map((node) => drawn(node.text ?? node.title)),
    arrows: db.getEdges().map((arrow) => drawn(arrow.text)),
  }),
};

const answers = [];
for (const text of JSON.parse(readFileSync(0, "utf8"))) {
  try {
    const { type, db } = await mermaid.mermaidAPI.getDiagramFromText(text);
    answers.push({ kind: type, ...READ[type](db) });
  } catch (error) {
    answers.push({ error: String(error.message ?? error) });
  }
}
process.stdout.write(JSON.stringify(answers));
