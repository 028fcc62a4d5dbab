"""Stop words: words that identify no company by themselves, because they are common on invoices.

A stop word is removed only as part of a mention of the value. Sources of the list: the words of the synthetic pages,
words on the pages of fifteen or more stations of FCC's public files, and short English words that occur inside longer
names (``order`` in ``Border``).
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


LEGAL = _words(
    """ab ag as bv co company corp corporation cie eg ek gbr gmbh inc incorporated kg kgaa lda limited llc llp lp ltd
    ltda nv ohg oy oyj plc plt pte pty pvt sa sarl sas se sl sprl spa srl"""
)
"""Legal forms of companies."""

STATION_TAILS = _words("am fm tv dt hd ld cd lp ca lpfm")
"""Suffixes of call signs, after a hyphen."""

TRADES = _words(
    """ads advertising agency broadcast broadcasting cable channel communications digital energy finance foods group
    holdings international labs live local logistics mail media my national net network networks news newsroom now
    online partners print pro production productions radio sales service services shop site solutions sports station
    stations studio studios supply systems team television the today web works usa world"""
)
"""Words of trade, which domains append to a name (``wgnradio.com``)."""

MAIL_HOSTS = _words("aol att comcast facebook gmail gmx google hotmail icloud live msn outlook verizon yahoo")
"""Hosts of the mailboxes and pages of many companies."""

STOP_WORDS = (
    TRADES
    | LEGAL
    | STATION_TAILS
    | _words(
        """a able about above accept accepted account accounts accuracy acct action actual ad address adults advance
    advertise advertiser advertisers after again against age agree agreement aid aim air aired airport all alone
    along already also alt always america american among amount amounts amt an and animal annual another any apply
    april are area arm around art article ask assembly at ate attached attention attn august authenticity auto
    available ave avenue average away back balance ball band bank bar base based basis be bear bed been before being
    belt best better between big bill billed billing bills bird blue bly blvd board body book boost border both
    boulevard bottom bound bow box brand break bridge bright bring broad brown budget build building bus business
    but buy buyer buyers buying by calendar call called came can canal cancel cancellation candidate car card care
    carry case cash cast cat cent center centers central centre certify change charge charges check cheque circle
    city class clear client close code codes coffee cold color come comment comments commercial commission common
    computer condition conditions confirmation congress constitute contact contract contracts copy correspondence
    cost costs could count country county court cover credit cross currency current customer customers cut cycle
    daily date dated dates day daypart days deal dear dec december deep delivery dem demo demographic department
    deposit desc description design desk detail details development did direct director discount discriminate do
    does dog done door dot double down dr draw drive drop due during duplicate each eagle ear earn earth east eat
    edge edit edited edition effective eft eight either elect election electric elegant else email end ending ends
    engine enter entered entry equal est estate estimate estimated ethnicity even evening event every example
    exchange executive executives express external extra eye face fact fair fall family far farm fast fax feb
    february fee feel fees felt few field file filing fill film filter final find fine fire firm first fish five
    fixed flat flight floor flow fly food foot for force forest form format forward found four frame free freight
    fresh friday friend from front full fund game garden gas gave gen general get girl give given glass global gmail
    go gold golden good grand great green gross ground grow guaranty guest hair half halt hand handling happy hard
    has hat have head health hear heart heat heavy height held help her here hereby high highway hill him his hit
    hold home hope hospital host hosting hot hotel hotmail hour hours house how http https human ice id idea if
    image important in inch included including income index industry info information ink insertion inside
    instructions insurance intent interest internal into inventory invoice invoiced invoices is island issue it item
    items its january job joint july june just keep key kind king know label lake land lane large last late later
    law lead league learn least leave left legal len length less letter level library license life lift light limit
    line lines link list listed little load loan local located log logo long look lost lot love low lower luck lunch
    machine made mailing main major make man management manager many march mark market marketing mart master match
    material matter may meal mean meat media medical medium meet member men merchant message met metal method mf
    middle mile military min mind mine minute mix model modified modern mon monday money month monthly months more
    morning most mount mouth move much must name names nation natural near need never new next nice night nine no
    noise none noon nor normal north northwest not note notes nothing notice nov november number numbers nw object
    oct october of off offer office officer official oil old on once one only open option or orange order ordered
    orders ore org original other others our out outlook outside over overnight own owned owner oz pac pack package
    packs pad page pages paid paint pair panel paper par parent park parkway part partner party pass past path pay
    payable paying payment payments peace pen people per percent period person personal pet phone photo phrase pick
    picture piece pin place placed plan plane plant plate play plaza please plus po point policy political pool poor
    pop port portal post postal pound power powered press pretty preview price prices primary prime printed prior
    private process product products profit program project proof property provided public pull purchase purchasing
    purpose push put qty quality quantity quarter quick quiet quote race rail rain ran range rate rates rating raw
    re read ready real rear receipt received record red ref reference refund reg region registered registration
    release remain remark remarks remit remittance rendered rent rental repair repeat reply report reports
    representative request required reserve rest result return rev revenue review revision rich ride right ring rise
    river road rock room root rose round route row rule run sale salesperson same sand saturday save schedule
    scheduled school science sea season seat sec second section security see sell senate send sent separation sept
    september series set seven severally shall shape share she sheet ship shipping short should show shown side sign
    signature simple since single six size skin sky sleep small smart so social soft software sold some song soon
    sort sound source south space spam speak special specified speed spell spend sport spot spots spring square st
    staff stage stamp stand standard star start starts state statement states ste steel step still stock stone stop
    storage store story strategic strategies street strong style sub subject subtotal such sugar suite sum summer
    sun sunday sunset super sure surface swim system table take taken talk tall tariff task tax taxes teach tel
    telephone tell temp ten term terms terrace test text than thank thanks that their them then there these they
    thing third this those three through thru thursday tile time times title to tone took tool top total totals
    touch tower town toy track trade traffic trail train transaction transactions transfer transport travel tree
    trip true trust try tuesday turn two type types under unit united units unless until up upon upper us use used
    user valid valley value van vat vendor very via video view virtual visit voice void vote wait walk wall want
    ward warm warrant was waste watch water way we weather website wednesday week weekday weekdays weekly weeks
    weight well were west what wheel when where which while white who whole whom whose why wide will wind window
    wine winter wire wish with within without woman women wood word work working wrong www yahoo yard year yearly
    years yellow yes yet you young your zero zip zone aol comcast verizon facebook twitter instagram google youtube
    linkedin com edu gov biz uk eu de al ak az ar ct dc fl ga hi ia il ks ky la md me mi mn mo ms mt nc nd ne nh nj
    nm ny oh ok pa ri sc sd tn tx ut va vt wa wi wv wy mm dd eur usd gbp"""
    )
)
