// Lays a task graph out, away from the thread that draws: a thousand tasks take seconds.
import { Graph, layout } from "@dagrejs/dagre";
import type { LayoutAsked, LayoutMade } from "./layout";

const MANY = 200; // from here on the fast way of ranking

declare const self: DedicatedWorkerGlobalScope;

self.onmessage = (message: MessageEvent<LayoutAsked>) => {
  const { key, boxes, edges } = message.data;
  const graph = new Graph();
  graph.setGraph({
    rankdir: "LR",
    nodesep: 9,
    ranksep: 46,
    edgesep: 8,
    marginx: 10,
    marginy: 10,
    ranker: boxes.length > MANY ? "longest-path" : "network-simplex",
  });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const box of boxes) graph.setNode(box.id, { width: box.width, height: box.height });
  for (const [from, to] of edges) graph.setEdge(from, to);
  layout(graph);
  const whole = graph.graph() as { width?: number; height?: number };
  const made: LayoutMade = { key, width: whole.width ?? 0, height: whole.height ?? 0, at: {}, paths: [] };
  for (const box of boxes) {
    const { x, y } = graph.node(box.id) as { x: number; y: number };
    made.at[box.id] = { x, y };
  }
  made.paths = edges.map(([from, to]) => (graph.edge(from, to) as { points: { x: number; y: number }[] }).points);
  self.postMessage(made);
};
