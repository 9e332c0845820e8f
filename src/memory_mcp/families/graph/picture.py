"""A graph as an SVG picture."""

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from memory_mcp.families.graph.model import Entity, Relation

MAX_ENTITIES = 400  # entities in one picture: more are not legible
SIZE = 1200
MARGIN = 80
PALETTE = ("#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#e15759", "#76b7b2", "#edc948", "#9c755f", "#ff9da7", "#79706e")
STYLE = """
    svg { background: #fff; font: 12px system-ui, sans-serif } text { fill: #222 } .kind { fill: #777; font-size: 10px }
    .line { fill: none; stroke: #999 } .relation { fill: #777; font-size: 10px }
    @media (prefers-color-scheme: dark) { svg { background: #181818 } text { fill: #ddd } .line { stroke: #666 } }
"""

_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
Point = tuple[float, float]


def svg(title: str, entities: Sequence[Entity], relations: Sequence[Relation]) -> str:
    """Entities as dots, coloured by type and as large as they are well connected; relations as arrows."""
    points = _layout(entities, relations)
    degrees = _degrees(relations)
    kinds = {kind: PALETTE[number % len(PALETTE)] for number, kind in enumerate(_kinds(entities))}
    root = ElementTree.Element("svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {SIZE} {SIZE}", role="img")
    ElementTree.SubElement(root, "title").text = title
    ElementTree.SubElement(root, "style").text = STYLE
    _arrow_head(ElementTree.SubElement(root, "defs"))
    for relation in relations:
        if relation.source in points and relation.target in points:
            _arrow(root, relation, points)
    for entity in entities:
        _dot(root, entity, points[entity.name], kinds[entity.entity_type], 5 + degrees.get(entity.name, 0) ** 0.5 * 2)
    return _NOT_XML.sub("", ElementTree.tostring(root, encoding="unicode")) + "\n"


def best_connected(entities: Sequence[Entity], relations: Sequence[Relation]) -> list[Entity]:
    """The entities that the picture shows."""
    degrees = _degrees(relations)
    return sorted(entities, key=lambda entity: -degrees.get(entity.name, 0))[:MAX_ENTITIES]


def _layout(entities: Sequence[Entity], relations: Sequence[Relation]) -> dict[str, Point]:
    import networkx  # takes a while to import, and only pictures need it

    graph = networkx.Graph()
    graph.add_nodes_from(entity.name for entity in entities)
    graph.add_edges_from((one.source, one.target) for one in relations if {one.source, one.target} <= graph.nodes)
    places = networkx.spring_layout(graph, seed=1, iterations=100, k=2 / max(1, len(entities)) ** 0.5)
    middle, reach = SIZE / 2, SIZE / 2 - MARGIN
    return {name: (middle + reach * float(x), middle + reach * float(y)) for name, (x, y) in places.items()}


def _degrees(relations: Sequence[Relation]) -> dict[str, int]:
    degrees: dict[str, int] = {}
    for relation in relations:
        for name in (relation.source, relation.target):
            degrees[name] = degrees.get(name, 0) + 1
    return degrees


def _kinds(entities: Sequence[Entity]) -> list[str]:
    return list(dict.fromkeys(entity.entity_type for entity in entities))


def _arrow_head(defs: ElementTree.Element) -> None:
    marker = ElementTree.SubElement(
        defs,
        "marker",
        id="head",
        viewBox="0 0 8 8",
        refX="14",
        refY="4",
        markerWidth="7",
        markerHeight="7",
        orient="auto",
    )
    ElementTree.SubElement(marker, "path", d="M0 0 8 4 0 8z", fill="#999")


def _arrow(root: ElementTree.Element, relation: Relation, points: dict[str, Point]) -> None:
    (x1, y1), (x2, y2) = points[relation.source], points[relation.target]
    if relation.source == relation.target:  # a loop above the dot
        path = f"M{x1:.1f} {y1:.1f} c-40 -50 40 -50 0 0"
        y1 = y2 = y1 - 40
    else:
        path = f"M{x1:.1f} {y1:.1f} L{x2:.1f} {y2:.1f}"
    ElementTree.SubElement(root, "path", {"d": path, "class": "line", "marker-end": "url(#head)"})
    where = {"x": f"{(x1 + x2) / 2:.1f}", "y": f"{(y1 + y2) / 2:.1f}", "text-anchor": "middle", "class": "relation"}
    ElementTree.SubElement(root, "text", where).text = relation.relation_type


def _dot(root: ElementTree.Element, entity: Entity, point: Point, colour: str, radius: float) -> None:
    x, y = point
    group = ElementTree.SubElement(root, "g")
    tooltip = "\n".join([f"{entity.name} ({entity.entity_type})", *entity.observations])
    ElementTree.SubElement(group, "title").text = tooltip
    ElementTree.SubElement(group, "circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=f"{radius:.1f}", fill=colour)
    label = ElementTree.SubElement(group, "text", x=f"{x + radius + 3:.1f}", y=f"{y + 4:.1f}")
    label.text = entity.name
    ElementTree.SubElement(label, "tspan", {"class": "kind"}).text = f" {entity.entity_type}"
