"""Hostile pages for the scrubber, by class: key, value, and the words of a page.

A word that starts with ``*`` gives the value away and must go; one that starts with ``?`` is part of a
mention and may go or stay; every other word must stay.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pfl_audit.documents.document import Document
from pfl_audit.documents.scrubbing.residual import residual_identifiers
from pfl_audit.documents.scrubbing.scrub import scrub

NAME, EMAIL, PHONE, ADDRESS, WEBSITE, TAX, ID = (
    "provider_name",
    "provider_email",
    "provider_phone",
    "provider_address",
    "provider_website",
    "tax_number",
    "registration_id",
)


@dataclass(frozen=True)
class Case:
    """One page.

    Attributes:
        group: Class of the case.
        key: What is asked for.
        value: What must go.
        words: Of the page.
        must_go: Numbers of the words that give the value away.
        may_go: Numbers of the words that are parts of a mention.
    """

    group: str
    key: str
    value: str
    words: tuple[str, ...]
    must_go: frozenset[int]
    may_go: frozenset[int]


_LISTED: dict[str, list[tuple[str, str, str]]] = {
    "call signs": [
        (NAME, "KMPT-AM", "Invoice *KMPT Total"),
        (NAME, "KMPT-AM", "visit *www.kmpt.com today"),
        (NAME, "KMPT-AM", "mail *traffic@kmpt.com now"),
        (NAME, "KMPT-AM", "station *KMPTAM and *KMPT-FM order"),
        (NAME, "KMPT-AM", "*KMPT ?AM 930 Missoula"),
        (NAME, "KMPT-AM", "7:00 AM to 9:00 AM $45.00"),
        (NAME, "WMTW", "*WMTW-TV *WMTW-DT2 *wmtw.com Channel 8"),
        (NAME, "WABC-TV 7", "*WABC *abc7ny@wabc.com 7 spots"),
        (NAME, "KSTP", "*KSTP KARE WCCO stations"),
        (NAME, "KCCI", "find us at *www.kcci.com or *www.facebook.com/kcci8"),
        (NAME, "K-LOVE", "*K-LOVE *klove.com *KLOVE radio"),
        (NAME, "WXYZ/WXYA", "*WXYZ and *WXYA schedule"),
    ],
    "short names": [
        (NAME, "WGN", "*wgntv.com *mywgntv9.com Chicago"),
        (NAME, "WGN", "*www.wgnradio.com *news@wgn9.com"),
        (NAME, "WGN", "*WGN-TV *WGN9 *WGN's Wagner"),
        (NAME, "WHO", "*WHO-TV *whotv.com the man who paid"),
        (NAME, "KGO", "*mykgo.com *kgo-tv.com Kgotla"),
        (NAME, "GE", "*GE invoice page GA Georgia general"),
        (NAME, "3M Co", "*3M *3m.com 3 M10"),
        (NAME, "HP", "*HP *hp.com shop php"),
        (NAME, "Ito", "*Ito *ITO Italy into Itoya"),
        (NAME, "BBC", "*bbc.co.uk *bbcnews.com abc"),
        (EMAIL, "ads@wgn.com", "*ads@wgn.com *sales@wgn.com *www.wgn.com roads"),
        (WEBSITE, "www.ktv.us", "*ktv.us *info@ktv.us *http://ktv.us/pay"),
    ],
    "ampersand": [
        (NAME, "Goarn & Wadres", "*Goarn ?and *Wadres"),
        (NAME, "Goarn & Wadres", "*Goarn ?+ *Wadres *Goarn+Wadres"),
        (NAME, "Goarn & Wadres", "*Goarn ?'n' *Wadres *GoarnnWadres"),
        (NAME, "Goarn & Wadres", "*Goarn ?8 *Wadres *Goarn8Wadres"),
        (NAME, "Goarn & Wadres", "*Goarn&amp;Wadres *goarnandwadres.com"),
        (NAME, "Goarn and Wadres", "*Goarn&Wadres *goarn-wadres.com"),
        (NAME, "AT&T", "*AT&T *AT ?& *T page"),
        (NAME, "AT&T", "*ATT *att.com attn: attached"),
        (NAME, "H&M", "*H&M *H ?and *M *hm.com"),
        (NAME, "A&P", "*A&P *AandP *A+P app"),
        (NAME, "B & O Rail", "*B&O *Rail trail"),
        (NAME, "Müller und Söhne", "*Müller ?& *Söhne *Mueller"),
    ],
    "initials": [
        (NAME, "Goarn Wadres Partners Inc", "*GWP report"),
        (NAME, "Goarn Wadres Partners Inc", "*G.W.P. report"),
        (NAME, "Goarn Wadres Partners Inc", "*G *W *P report"),
        (NAME, "Goarn Wadres Partners Inc", "*GWPI *gwp.com"),
        (NAME, "American Media Trust", "Amt: $4.00"),
        (NAME, "National Election Team", "Net 30 net"),
        (NAME, "Kellman Ingram Tosser", "first aid kit Kit *KIT"),
        (NAME, "Goarn & Wadres", "*G&W page"),
        (NAME, "John Smith", "*J. *Smith *JS"),
        (NAME, "Orlando Regional Data Extra Relay", "ORDER 17 order"),
        (NAME, "Cable News Network", "*CNN *cnn.com can"),
    ],
    "one name alone": [
        (NAME, "John Smith", "Attn: *John pay by check"),
        (NAME, "John Smith", "Mr. *Smith wrote"),
        (NAME, "Smith, John", "*Johnny's *Smith invoice"),
        (NAME, "Bob Lee", "call *Bob or *Lee free sleep"),
        (NAME, "Ann Cox Media", "*Cox *Ann annual box"),
        (NAME, "Goarn Wadres", "*Goarn invoice *WADRES"),
        (NAME, "Katz Media Group", "*Katz ?media buying group"),
        (NAME, "Smith-Jones Ltd", "*Jones and *Smith joint"),
        (NAME, "O'Brien Foods", "*O'Brien *OBrien *Brien ?foods"),
        (NAME, "McDonald Print", "*McDonald *Mc *Donald ?print"),
        (NAME, "iHeartMedia", "*iHeart *iheart.com *iHeartRadio heart"),
        (NAME, "Jean-Luc Perrin", "*Jean *Luc *Perrin luck"),
    ],
    "OCR confusions": [
        (NAME, "Harmon", "*Harrnon page"),
        (NAME, "Harmon Media", "*Harrnon *HARMON"),
        (NAME, "KSOL", "*K5OL *KS0L *KSO1 *K50I"),
        (NAME, "WILL", "*W1LL *WIII *WlLL"),
        (NAME, "Dodge", "*Doclge *D0dge *Dodqe"),
        (NAME, "Wadres", "*VVadres *vvadres.com"),
        (NAME, "Goarn Wadres", "*G0arn *Wadre5 *Coarn"),
        (NAME, "BELO Corp", "*8ELO *BEL0 *8EL0"),
        (NAME, "Zenith", "*2enith *Zen1th *Zenlth"),
        (NAME, "Cleary Works", "*deary *C1eary ?works"),
        (NAME, "WIBB", "*WI88 *W1B8"),
        (NAME, "Nielsen", "*Nie1sen *Niel5en *Nielson"),
        (TAX, "56-0589582", "*S6-O589582 *56-05895B2"),
        (PHONE, "(555) 123-4567", "*(SS5) *123-4S67 due"),
        (ID, "AB105582", "*ABIO5582 *A81O5582"),
        (EMAIL, "billing@preangroup.net", "*bi11ing@preangr0up.net *preangroup,net"),
        (NAME, "Goarn|Wadres", "*Goarn *Wadres *Goarn|Wadres"),
        (NAME, "Kellman", "*Ke|lman *Keliman *KeIIman"),
    ],
    "homoglyphs": [
        (NAME, "KMPT", "*КМРТ page"),
        (NAME, "KMPT", "*KМPT *KΜPΤ"),
        (NAME, "Capex", "*Сарех *Cареx"),
        (NAME, "Goarn", "*Gоаrn *Gοarn"),
        (NAME, "Wadres", "*Ｗａｄｒｅｓ *𝐖𝐚𝐝𝐫𝐞𝐬 *Ⓦⓐⓓⓡⓔⓢ"),
        (NAME, "Sylvan", "*Ѕylvan *Sуlvаn"),
        (NAME, "Łódź Media", "*Lodz *ŁÓDŹ ?media"),
        (NAME, "Oslo Fjord", "*Øslo *Osło *Fjørd"),
        (NAME, "Irmak", "*IRMAK *ırmak *İrmak"),
        (NAME, "Βήτα", "*ΒΗΤΑ *βητα"),
        (EMAIL, "ads@kmpt.com", "*ads@кмрт.com *ａｄｓ＠ｋｍｐｔ．ｃｏｍ"),
    ],
    "digits of other scripts": [
        (TAX, "56-0589582", "*٥٦-٠٥٨٩٥٨٢ page"),
        (TAX, "56-0589582", "*५६-०५८९५८२ *５６－０５８９５８２"),
        (PHONE, "555 123 4567", "*۵۵۵ *۱۲۳ *۴۵۶۷ due"),
        (ID, "AB105582", "*AB１０５５８２ *AB¹⁰⁵⁵⁸²"),
        (ADDRESS, "7922 Foalt Boulevard Ralville WA 59113", "*７９２２ *Foalt ?Boulevard *५९११३"),
        (NAME, "Channel 93", "?Channel *９３ page"),
    ],
    "addresses": [
        (ADDRESS, "7922 Foalt Boulevard Ralville WA 59113", "*7922 *Foalt ?Boulevard *Ralville ?WA *59113"),
        (ADDRESS, "7922 Foalt Boulevard Ralville WA 59113", "*7922 *Foalt ?Blvd. *Ralville, ?WA *59113"),
        (ADDRESS, "7922 Foalt Boulevard Ralville WA 59113", "PO Box 31 *Ralville ?WA *59113"),
        (ADDRESS, "7922 Foalt Boulevard Ralville WA 59113", "zip *59113 code *59113-2231"),
        (ADDRESS, "7922 Foalt Boulevard Ralville WA 59113", "No. *7922 , street of *Foalt"),
        (ADDRESS, "7922 Foalt Boulevard Ralville WA 59113", "*FOALT ?BOULEVARD *7922"),
        (ADDRESS, "12 Main Street Halville CT 06511", "*12 ?Main ?St. *Halville ?CT *06511"),
        (ADDRESS, "12 Main Street Halville CT 06511", "12 spots on Main channel at 12.00"),
        (ADDRESS, "10 Downing Street London SW1A 2AA", "*SW1A *2AA *SW1A2AA *Downing"),
        (ADDRESS, "Hauptstr. 5 10115 Berlin", "*10115 *Berlin *Hauptstraße ?5"),
        (ADDRESS, "500 Fifth Avenue New York NY 10110", "*500 *Fifth ?Avenue ?New ?York ?NY *10110"),
        (ADDRESS, "P.O. Box 8841 Carson IA 51525", "?PO ?Box *8841 *Carson *51525"),
        (ADDRESS, "1 Wade Ct Polk OH 44866", "*1 *Wade ?Ct *Polk ?OH *44866 qty 1"),
        (ADDRESS, "7922 Foalt Boulevard Ralville WA 59113", "$79.22 $591.13 07/9/22"),
        (ADDRESS, "20 rue de Sèvres 75007 Paris", "*20, ?rue ?de *Sevres ?- *75007 *PARIS"),
    ],
    "phones": [
        (PHONE, "(555) 123-4567", "*555-123-4567 *555.123.4567 *5551234567"),
        (PHONE, "(555) 123-4567", "*+1 *(555) *123-4567"),
        (PHONE, "(555) 123-4567", "*15551234567 *1-555-123-4567"),
        (PHONE, "(555) 123-4567", "*001 *555 *123 *4567"),
        (PHONE, "(555) 123-4567", "local *123-4567 or *123 *4567"),
        (PHONE, "+44 20 7946 0958", "*020 *7946 *0958 London"),
        (PHONE, "+44 20 7946 0958", "*+44(0)2079460958 *0044 *20 *79460958"),
        (PHONE, "020 7946 0958", "*+442079460958 *+44 *20 *7946 *0958"),
        (PHONE, "+49 (0)30 123456-78", "*030 *12345678 *+493012345678"),
        (PHONE, "555-123-4567 x89", "*555-123-4567 ?ext ?89"),
        (PHONE, "(555) 123-4567", "*Tel:555-123-4567 *T5551234567"),
        (PHONE, "1-800-356-9377", "*800-356-9377 *(800) *356-9377"),
    ],
    "emails": [
        (EMAIL, "billing@preangroup.net", "*billing ?@ *preangroup ?. ?net"),
        (EMAIL, "billing@preangroup.net", "*billing@ *preangroup.net"),
        (EMAIL, "billing@preangroup.net", "*billing@prean *group.net"),
        (EMAIL, "billing@preangroup.net", "*billing(at)preangroup(dot)net"),
        (EMAIL, "billing@preangroup.net", "?billing ?at *preangroup ?dot ?net billing address"),
        (EMAIL, "billing@preangroup.net", "*www.preangroup.net *sales@preangroup.net"),
        (EMAIL, "billing@preangroup.net", "*BILLING@PREANGROUP.NET *billing[at]preangroup.net"),
        (EMAIL, "billing@preangroup.net", "*mailto:billing@preangroup.net?subject=x"),
        (EMAIL, "billing@preangroup.net", "*Email:billing@preangroup.net, *<billing@preangroup.net>"),
        (EMAIL, "billing@preangroup.net", "*Prean *Group office"),
        (EMAIL, "john.smith@gmail.com", "*john.smith *Smith other@gmail.com"),
        (EMAIL, "accounts@kmpt.co", "Accounts Payable Amount *kmpt.co company"),
        (EMAIL, "invoice@mail.goarn.co.uk", "*goarn.co.uk INVOICE mail other.co.uk"),
        (EMAIL, "info@wol.org", "*traffic@wol.org *wol.org wolf"),
    ],
    "websites": [
        (WEBSITE, "www.goarn.com", "*goarn.com *http://goarn.com"),
        (WEBSITE, "https://www.goarn.com/pay/now", "*www.goarn.com pay now"),
        (WEBSITE, "goarn.com", "*https://www.goarn.com/pay?id=3 *shop.goarn.com"),
        (WEBSITE, "www.goarn.com", "*www. *goarn ?. ?com"),
        (WEBSITE, "www.goarn.com", "?www. *goarn.com *WWW.GOARN.COM"),
        (WEBSITE, "www.goarnmedia.com", "*Goarn *Media buying media"),
        (WEBSITE, "www.goarn-media.com", "*goarnmedia.com *goarn.com"),
        (WEBSITE, "www.kmpt.tv", "*info@kmpt.tv *KMPT www.other.tv"),
        (WEBSITE, "www.wol.org", "*office@wol.org *wol.org wolf work.org"),
        (WEBSITE, "www.goarn.com", "*wwwgoarncom *wwww.goarn.corn"),
    ],
    "tax numbers": [
        (TAX, "56-0589582", "*560589582 *56 *0589582"),
        (TAX, "56-0589582", "*56.058.9582 *56-058-9582"),
        (TAX, "56-0589582", "*EIN:56-0589582 *TaxID56-0589582"),
        (TAX, "56-0589582", "*US560589582 VAT"),
        (TAX, "DE123456789", "*DE *123 *456 *789"),
        (TAX, "DE123456789", "*123456789 *DE-123.456.789"),
        (TAX, "ATU12345678", "*U12345678 *ATU *1234 *5678"),
        (TAX, "FR 12 345678901", "*345678901 *FR12345678901"),
        (TAX, "56-0589582", "*56 ?– *0589582 *0589582"),
        (ID, "HRB 12345 B", "*HRB *12345 *HRB12345"),
        (ID, "GX419350", "*GX-419350 *GX *419350 *419350"),
        (ID, "1828", "*1828 *idb#1828 1,828.00 18:28 11828"),
    ],
    "legal suffixes": [
        (NAME, "Goarn Inc", "*Goarn *GOARN ?LLC *Goarn ?Incorporated"),
        (NAME, "Goarn GmbH & Co. KG", "*Goarn ?GmbH inc llc"),
        (NAME, "ABC Inc", "*ABC ?Inc. *ABC ABCD alphabet"),
        (NAME, "Acme", "*Acme ?GmbH *ACME ?Co."),
        (NAME, "Goarn Print Co", "*Goarn ?Print ?Company print company"),
        (NAME, "The Goarn Company", "*Goarn the company"),
        (NAME, "Pam Labs", "*Pam *pam.org *traffic@pam.org spam"),
        (NAME, "Man Print Co", "*man.org *traffic@man.org woman"),
        (NAME, "Goarn S.A.", "*Goarn ?SA *Goarn ?S.A."),
    ],
    "plurals and possessives": [
        (NAME, "Goarn", "*Goarn's *Goarns *GOARNS'"),
        (NAME, "Macy's", "*Macys *Macy *macys.com"),
        (NAME, "Wendy’s", "*Wendy's *Wendys"),
        (NAME, "KMPT", "*KMPT's *KMPTs"),
        (NAME, "Woods Media", "*Wood's *Woods ?media"),
        (NAME, "Joe's Diner", "*Joe's *Joes *Diner dinner"),
    ],
    "line breaks": [
        (NAME, "Goarn Wadres", "*Goa- *rn *Wadres"),
        (NAME, "Wadresson Media", "*Wadres- *son ?media"),
        (NAME, "Kellmanton", "*Kell- *manton page"),
        (EMAIL, "billing@preangroup.net", "*billing@pre- *angroup.net"),
        (WEBSITE, "www.goarnwadres.com", "*www.goarn- *wadres.com"),
        (ADDRESS, "7922 Foaltington Boulevard Ralville WA 59113", "*Foalt- *ington *Ral- *ville"),
        (NAME, "KMPT-AM", "*KM- *PT station"),
    ],
    "glued neighbours": [
        (NAME, "Goarn", "*InvoiceGoarn *GoarnInvoice *Goarn:Total"),
        (NAME, "KMPT-AM", "*ToKMPTInc *KMPT/Invoice"),
        (NAME, "Goarn & Wadres Partners", "*GoarnWadres *fromGoarn *WadresPartners"),
        (NAME, "WGN", "*Invoice-WGN *WGN/CLTV *(WGN)"),
        (NAME, "Goarn Wadres", "*Go *arn *Wad *res page"),
        (NAME, "Acme", "*A *C *M *E invoice"),
        (TAX, "56-0589582", "*No.56-0589582Date *#560589582"),
        (PHONE, "(555) 123-4567", "*Phone:(555)123-4567 *(555)123-4567Fax"),
    ],
    "case, accents, invisible": [
        (NAME, "Café Zürich", "*CAFE *ZURICH *cafe *zürich"),
        (NAME, "cafe zurich", "*Café *Zürich"),
        (NAME, "Straße AG", "*STRASSE ?AG *Strasse"),
        (NAME, "Goarn", "*Go\u200barn *\u2066Goarn\u2069 *Go\u00adarn"),
        (NAME, "Goarn", "*Goarn\ufeff *G\u0301oarn"),
        (NAME, "KMPT", "*K\u200dM\u200dP\u200dT *ＫＭＰＴ"),
        (NAME, "ミツバ", "*株式会社ミツバ 請求書"),
        (NAME, "Finola", "*ﬁnola *FINOLA final"),
        (TAX, "56-0589582", "*56\u20110589582 *56\u00ad0589582 *56\u2009–\u20090589582"),
    ],
    "near spellings": [
        (NAME, "Goarn Wadres", "*Gaorn *Wadrs *Wadress"),
        (NAME, "Goarn Wadres", "*www.grnwdrs.com page"),
        (NAME, "Goarn Wadres", "*Wadresson *Goarnia"),
        (NAME, "Kellmanton", "*Kellmaton *Kelmanton *Kellmantoo"),
        (TAX, "56-0589582", "*56-0589583 *56-0589528 91-1234567"),
        (EMAIL, "billing@preangroup.net", "*billing@preangruop.net *preangroop.net"),
    ],
    "acronyms that are words": [
        (NAME, "American Media Trust", "paid by *AMT today"),
        (NAME, "National Election Team", "*NET invoices"),
        (NAME, "First Orange Radio", "*FOR billing"),
    ],
    "numbers as words": [
        (PHONE, "1-800-356-9377", "call *1-800-FLOWERS now"),
        (PHONE, "(555) 123-4567", "*five *five *five *one *two *three"),
        (NAME, "Channel Nine Goarn", "Channel *9 page"),
    ],
    "other names": [
        (NAME, "Goarn Wadres", "the *Orange *Broadcaster invoice"),
        (NAME, "William Kellman", "*Bill pays, signed *Will"),
        (NAME, "International Business Machines", "*Big *Blue page"),
    ],
    "names of ordinary words": [
        (NAME, "Best Price Group", "thank you, *Best Total"),
        (NAME, "National Media Group", "*www.nationalmedia.com *National"),
    ],
    "over: shorter ordinary words": [
        (NAME, "Border Patrol", "Order number 7 Orders *Border *Patrol"),
        (NAME, "Beagle Media", "eagle Eagle legal"),
        (NAME, "Blight Systems", "light Light flight bright"),
        (NAME, "Stamount Co", "Amount amount: mount"),
        (NAME, "Protal Print", "Total total Rental"),
        (NAME, "Hailt Print", "Cailt mail halt"),
        (NAME, "Light Media", "Flight flight flights"),
        (NAME, "Land Co", "Maryland island *Land"),
        (NAME, "Order Works", "border reorder"),
        (NAME, "Port Energy", "Report airport support important"),
        (EMAIL, "accounts@sotlogistics.org", "Amount accounts Logistics"),
        (EMAIL, "invoice@kelt.com", "INVOICE Invoice: belt felt"),
        (NAME, "Reld Group", "Group group field held"),
        (NAME, "Stitrild & Nelt Systems", "Items: system next net"),
        (NAME, "Bran Foods", "Brand brand Bank"),
    ],
    "over: common words of the value": [
        (NAME, "Goarn Media", "social media and Media buying"),
        (NAME, "National Street Works", "12 Oak Street national works"),
        (NAME, "First American Bank", "first payment to American bank *First ?American ?Bank"),
        (NAME, "Goarn News & Sports", "news at six sports and weather"),
        (ADDRESS, "7922 Foalt Boulevard Ralville WA 59113", "55 Oak Boulevard Seattle WA 98101"),
        (ADDRESS, "12 Main Street Halville CT 06511", "Main: street suite 12:30 CT"),
        (EMAIL, "billing@preangroup.net", "INVOICE billing address Billing"),
        (EMAIL, "sales.office@kelt.com", "Sales Office: sales office"),
        (WEBSITE, "www.goarn.com/invoice", "invoice www.other.com Invoice"),
        (NAME, "The Weather Company", "the weather company policy *The ?Weather ?Company"),
        (NAME, "Date Line Ltd", "Date line Dates 4 lines *Dateline *Date ?Line"),
        (NAME, "Best Price Group", "price best Group Best"),
    ],
    "over: numbers, prices, dates": [
        (TAX, "56-0589582", "$560.58 $95.82 $5,605,895.82"),
        (TAX, "56-0589582", "05/05/2019 0589 56"),
        (PHONE, "(555) 123-4567", "fax ?(555) 999-0000 555 units"),
        (PHONE, "(555) 123-4567", "$1,234.56 123 4567890 12:34"),
        (ID, "1828", "$1,828.00 $18.28 18/28 1,828.50"),
        (ID, "101112", "10/11/12 10:11:12 $1,011.12"),
        (ADDRESS, "12 Main Street Halville CT 06511", "12 units 12 $12.00 12/12/2020"),
        (ADDRESS, "500 Oakton Road Belton TX 76513", "$500.00 500% 76,513.00 $765.13"),
        (ADDRESS, "2020 Oakton Road Belton TX 76513", "01/02/2020 Jan 20, 2020"),
        (NAME, "Channel 9 Goarn", "9 spots 9:00 $9.00 9%"),
        (NAME, "24/7 Media", "24 hours 7 days 24.7 247.00"),
        (ID, "GX419350", "419.35 $4,193.50 GX GA419"),
    ],
}


def marked_case(group: str, key: str, value: str, text: str) -> Case:
    """Read a case from its marked words."""
    marked = text.split(" ")
    return Case(
        group,
        key,
        value,
        tuple(word.removeprefix("*").removeprefix("?") for word in marked),
        frozenset(index for index, word in enumerate(marked) if word[0] == "*"),
        frozenset(index for index, word in enumerate(marked) if word[0] == "?"),
    )


CASES = tuple(marked_case(group, *row) for group, rows in _LISTED.items() for row in rows)
GROUPS = tuple(_LISTED)


def outcome(case: Case) -> tuple[set[str], set[str], set[str]]:
    """Words of a case that are left, those of them that the second look does not mark, and words taken too much."""
    page = Document("page_1", "", case.words, np.zeros((len(case.words), 4), np.float32))
    scrubbed = scrub(page, case.value)
    kept = [index for index in range(len(case.words)) if index not in scrubbed.removed]
    marked = {kept[identifier.word] for identifier in residual_identifiers(scrubbed.document, case.value)}
    left = case.must_go - set(scrubbed.removed)
    too_much = set(scrubbed.removed) - case.must_go - case.may_go
    of = [{case.words[index] for index in found} for found in (left, left - marked, too_much)]
    return of[0], of[1], of[2]
